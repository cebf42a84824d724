// The gradient of one task of the strategy ParameterServer.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/gather.h"
#include "trainer/observe/phase_clock.h"
#include "trainer/strategy/parameter_server/lease_book.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// Not thread-safe; used by the training thread. Requires: the session's device is the host.
class BatchGradient {
 public:
  // Requires: the references outlive this. The session's world is the number of parts of a step.
  BatchGradient(Session& session, PhaseClock& phases);

  // Computes with the model's parameters and states, which the caller has pulled. Afterwards the
  // session's gradients are those of the task's share of the mean loss over the step, and its
  // buffer's states are this task's share of the states' change. Totals that say `skipped` mean
  // that the loss or a gradient is not finite; loss and correct are 0 then. On failure, a sample
  // cannot be read.
  absl::StatusOr<BatchTotals> Compute(const BatchTask& task);

 private:
  void RunParts();
  double GradientNorm();

  Session& session_;
  PhaseClock& phases_;
  // Of the latest task's part. Nothing is read ahead: a task is known only once it is given out.
  LoaderOptions reads_;
  Batch batch_;
  std::vector<float> saved_states_;  // as the caller has pulled them
};

}  // namespace lockstep::train
