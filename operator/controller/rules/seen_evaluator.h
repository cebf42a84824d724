// Remembers how often an Evaluator was lost lately. Deterministic, but not stateless.
#pragma once

#include <optional>
#include <string>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Counts each loss of an Evaluator's pod, whatever its cause: it fails, is deleted, cannot be
// reached, or is simply gone. Reads no count from the status, which has none of disruptions alone,
// and which an older CRD may prune. Not thread-safe.
class SeenEvaluator {
 public:
  // Records what `observed` shows of the Evaluator's pod. Returns when the next pod may be created
  // in its place: at once after a first loss, and as RestartDelay says of losses in a row. A row
  // ends if a pod lasts for kHealthyRun, and with the attempt. Returns nullopt if none was lost.
  std::optional<Time> Note(const Observed& observed);

 private:
  void AddLoss(const Observed& observed);

  int attempt_ = 0;
  std::string uid_;       // of the pod that was there in the last call; empty: none
  bool is_lost_ = false;  // and its loss is counted
  int in_a_row_ = 0;
  std::optional<Time> due_;
};

}  // namespace lockstep::controller
