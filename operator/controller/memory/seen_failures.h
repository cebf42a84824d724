// Remembers which pods have failed, or were lost without a trace, until that is judged.
// Deterministic, but not stateless.
#pragma once

#include <map>
#include <string>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// A failure that may be a consequence is judged only after Settings::settling, and any judgement
// waits for the API server. Somebody may delete the pod meanwhile; its failure is charged all the
// same. A pod that ran and is deleted by force is gone at once, without having failed. Not
// thread-safe.
class SeenFailures {
 public:
  // Adds the recorded pods that are gone to `observed.pods`, which is sorted by PlaceOf and stays
  // so. Forgets those that are counted or are no members any more. Requires: the `..._since` of
  // `observed.pods` are set after this call, so that they follow the steady clock.
  void AddGone(Observed& observed);
  // Records that the pod, which ran when it was last seen, is gone.
  void RecordGone(const std::string& uid, const Place& place);
  // Records the members of the present attempt that have failed and are not counted, without an
  // Evaluator, which SeenEvaluator counts.
  void Record(const Observed& observed);

 private:
  std::map<Place, ObservedPod> lost_;
};

}  // namespace lockstep::controller
