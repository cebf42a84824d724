// The gradient of one task of the strategy ParameterServer.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/gather.h"
#include "trainer/observe/phase_clock.h"
#include "trainer/strategy/parameter_server/lease_book.h"
#include "trainer/strategy/parameter_server/plan_shards.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// Returns which shares of the session's states a step's passes keep: the moving averages of batch
// normalization keep `momentum` in each.
std::vector<KeptStates> KeptStatesOf(Session& session);

// Not thread-safe; used by the training thread. Requires: the session's device is the host.
class BatchGradient {
 public:
  // Requires: the references outlive this. The session's world is the number of parts of a step.
  // `keeps_states`: the updated states are not the sum of all parts' changes, as in Sync, but what
  // an update keeps of them (KeptStatesOf) and what this task adds.
  BatchGradient(Session& session, PhaseClock& phases, bool keeps_states);

  // Computes with the model's parameters and states, which the caller has pulled. Afterwards the
  // session's gradients are those of the task's share of the mean loss over the step, and its
  // buffer's states are what the update adds to the states: see above. Totals that say `skipped`
  // mean that the loss or a gradient is not finite; loss and correct are 0 then. On failure, a
  // sample cannot be read.
  absl::StatusOr<BatchTotals> Compute(const BatchTask& task);

 private:
  void RunParts();
  void TakeStates(std::span<const float> states);

  Session& session_;
  PhaseClock& phases_;
  const std::vector<KeptStates> kept_states_;  // empty: all are kept whole
  // For the latest task's part. Nothing is read ahead: a task is known only once it is given out.
  LoaderOptions reads_;
  EpochOrders orders_;  // of reads_
  Batch batch_;
  std::vector<float> saved_states_;  // as the caller has pulled them
};

}  // namespace lockstep::train
