// A training of one process without peers, a step at a time: for measurements.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/data/loader.h"
#include "trainer/observe/phase_clock.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/session.h"
#include "trainer/train/train_step.h"

namespace lockstep::train {

// A bundled model on these samples, without evaluation. The caller sets how many steps.
api::TrainingSpec SyntheticTraining(std::string model, std::int64_t batch,
                                    api::SyntheticSpec samples);

// Not thread-safe.
class SoloTraining {
 public:
  // Initializes the session's model. Requires: the session's world is 1. Errors: those of
  // Strategy::Connect.
  static absl::StatusOr<std::unique_ptr<SoloTraining>> Create(std::unique_ptr<Session> session);
  // The same of a session on this back end. Errors: also those of Session::OpenData and
  // Session::Assemble.
  static absl::StatusOr<std::unique_ptr<SoloTraining>> Create(const SessionOptions& options,
                                                              std::unique_ptr<Backend> backend);

  Session& session() { return *session_; }
  // Runs the next step to its end. Errors: a sample cannot be read, or the training diverges.
  absl::StatusOr<StepTotals> Step() { return Run(1); }
  // Runs `steps` of at least 1 to their end, and returns the totals of the last. As in training, a
  // device with a queue gets the next step while it works on one. Errors: as for Step.
  absl::StatusOr<StepTotals> Run(std::int64_t steps);
  PhaseTimes ReadPhases() { return phases_.Read(); }

 private:
  explicit SoloTraining(std::unique_ptr<Session> session);

  const SystemClock clock_;
  PhaseClock phases_{clock_};
  const std::unique_ptr<Session> session_;
  const std::unique_ptr<Strategy> strategy_;
  const std::unique_ptr<Loader> loader_;
  std::int64_t step_ = 0;
};

}  // namespace lockstep::train
