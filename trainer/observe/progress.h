// How far training is and how fast it goes, from what the train loop tells after every step.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "api/v1/training_job.h"
#include "base/clock.h"

namespace lockstep::train {

// Over the real samples of all ranks since the epoch's start. Belongs into a checkpoint, so that a
// resumed epoch ends with the mean of all of it.
struct EpochSums {
  std::int64_t examples = 0;
  double loss = 0;     // sum of the samples' losses
  double correct = 0;  // samples classified rightly
  bool operator==(const EpochSums&) const = default;
};

// Used by one thread. Allocates nothing after construction.
class ProgressMeter {
 public:
  // Counts time from now. Steps begin at `first_step` (0, or that of a checkpoint).
  ProgressMeter(const Clock& clock, std::int64_t total_steps, std::int64_t steps_per_epoch,
                std::int64_t first_step = 0);

  // A step is done: sums over all ranks' samples of that step. A new epoch starts new sums.
  void AddStep(const EpochSums& step_sums);
  // Training goes on at `step` with these sums of its epoch: after a resume or a regrouping.
  void Restore(std::int64_t step, const EpochSums& sums);
  // Time since the last step, or the last call, was not spent on training (evaluation, waiting for
  // peers): it does not count for speed.
  void ExcludeTimeSinceLastMark();
  void SetCheckpoint(std::int64_t step) { last_checkpoint_step_ = step; }
  void SetEvaluation(double loss, double accuracy);

  const EpochSums& epoch_sums() const { return sums_; }
  std::int64_t step() const { return step_; }
  // Over recent steps: those of the last kRecent, but kFewest at least, and not the process's
  // first, which also warms up, unless there is no other.
  double RecentExamplesPerSecond() const;
  // All but goodput; see PhaseClock.
  api::Progress Get() const;

 private:
  struct Mark {
    Duration time{};         // SteppingTime() when the last of `steps` was done
    std::int64_t steps = 0;  // by this process
    std::int64_t examples = 0;
  };

  // Up to the last step, without what was excluded.
  Duration SteppingTime() const { return last_mark_ - start_ - excluded_; }
  // Where the recent steps begin.
  Mark RecentBegin() const;

  static constexpr Duration kRecent = std::chrono::seconds(10);
  static constexpr std::int64_t kFewest = 4;
  static constexpr std::size_t kMarks = 128;
  static constexpr Duration kBetweenMarks = kRecent / 100;

  const Clock& clock_;
  const std::int64_t total_steps_, steps_per_epoch_;
  const SteadyTime start_;
  SteadyTime last_mark_;
  Duration excluded_{};
  std::int64_t step_ = 0;
  Mark now_;
  EpochSums sums_;
  std::array<Mark, kMarks> marks_{};  // a ring
  std::size_t marked_ = 0;            // how many there have been
  std::int64_t last_checkpoint_step_ = -1;
  std::optional<double> test_loss_, test_accuracy_;
};

}  // namespace lockstep::train
