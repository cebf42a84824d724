// Measures the progress and the speed of training from the results of each step.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "api/v1/training_job.h"
#include "base/clock.h"

namespace lockstep::train {

// Sums over the real samples of all ranks since the epoch's start. Checkpoints contain them, so
// that a resumed epoch ends with the mean of the whole epoch.
struct EpochSums {
  std::int64_t examples = 0;
  double loss = 0;  // sum over samples
  // Samples classified correctly; with a loss of regression, the sum of absolute errors, of which
  // all that is called accuracy here is the mean.
  double correct = 0;
  bool operator==(const EpochSums&) const = default;
};

// Not thread-safe. Does not allocate after construction.
class ProgressMeter {
 public:
  // Measures time from now. Steps begin at `first_step` (0, or a checkpoint's step).
  ProgressMeter(const Clock& clock, std::int64_t total_steps, std::int64_t steps_per_epoch,
                std::int64_t first_step = 0);

  // Adds a step that is done: sums over all ranks' samples. A new epoch starts new sums.
  void AddStep(const EpochSums& step_sums);
  // Continues at `step` with these sums of its epoch, after a resume or a new generation.
  void Restore(std::int64_t step, const EpochSums& sums);
  // Excludes the time since the last step or call from the speed: it was not spent on training
  // (evaluation, waiting for peers).
  void ExcludeTimeSinceLastMark();
  void SetCheckpoint(std::int64_t step) { last_checkpoint_step_ = step; }
  void SetEvaluation(double loss, double accuracy, api::TestMetrics metrics = {});
  void SetTotalSteps(std::int64_t total_steps) { total_steps_ = total_steps; }

  std::int64_t step() const { return step_; }
  // The speed over recent steps: those of the last kRecent, but at least kFewest. Omits the
  // process's first step, which includes warm-up, unless it is the only one.
  double RecentExamplesPerSecond() const;
  // Returns all fields except goodput; see PhaseClock.
  api::Progress Get() const;

 private:
  struct Mark {
    Duration time{};         // SteppingTime() after the last of `steps`
    std::int64_t steps = 0;  // done by this process
    std::int64_t examples = 0;
  };

  // Time up to the last step, without what was excluded.
  Duration SteppingTime() const { return last_mark_ - start_ - excluded_; }
  // The mark at which the recent steps begin.
  Mark RecentBegin() const;

  static constexpr Duration kRecent = std::chrono::seconds(10);
  static constexpr std::int64_t kFewest = 4;
  static constexpr std::size_t kMarks = 128;
  static constexpr Duration kBetweenMarks = kRecent / 100;

  const Clock& clock_;
  std::int64_t total_steps_;
  const std::int64_t steps_per_epoch_;
  const SteadyTime start_;
  SteadyTime last_mark_;
  Duration excluded_{};
  std::int64_t step_ = 0;
  Mark now_;
  EpochSums sums_;
  std::array<Mark, kMarks> marks_{};  // a ring buffer
  std::size_t marked_ = 0;            // marks made so far
  std::int64_t last_checkpoint_step_ = -1;
  std::optional<double> test_loss_, test_accuracy_;
  api::TestMetrics test_metrics_;
};

}  // namespace lockstep::train
