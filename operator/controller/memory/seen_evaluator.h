// Remembers how often an Evaluator was lost lately, and whether it has failed for good.
// Deterministic, but not stateless.
#pragma once

#include <optional>
#include <string>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Counts each loss of an Evaluator's pod, whatever its cause: it fails, is deleted, cannot be
// reached, or is simply gone, even after its success. Reads no count from the status, which does
// not tell an Evaluator's disruptions from those of others, and whose other counts an older CRD may
// prune. Not thread-safe.
class SeenEvaluator {
 public:
  // Records what `observed` shows of the Evaluator's pod at `now`. Returns the earliest instant for
  // a pod that replaces the last lost one; it may have passed. The delay is RestartDelay for the
  // losses in a row. A new attempt starts a new row. So does a loss during training that comes
  // kHealthyRun or more after that time, however late the pod has started. After training no loss
  // does: the job waits for its Evaluator, and must not wait for ever. Returns nullopt if none was
  // lost in this attempt. Reads observed.until_stranded.
  std::optional<SteadyTime> UpdateDue(const Observed& observed, SteadyTime now);
  // Returns true if it has failed permanently in this attempt and the status has it. Its pod may be
  // gone since. A process that has just started does not know, so the Evaluator fails once more.
  bool has_given_up() const { return has_given_up_; }

 private:
  void AddLoss(const Observed& observed, SteadyTime now);

  int attempt_ = 0;
  std::string uid_;       // of the pod that was there in the last call; empty: none
  bool is_lost_ = false;  // and its loss is counted
  int in_a_row_ = 0;
  bool has_given_up_ = false;
  std::optional<SteadyTime> due_;
};

}  // namespace lockstep::controller
