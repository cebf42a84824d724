// Remembers which pods have failed until their failures are judged. Deterministic, but not
// stateless.
#pragma once

#include <map>
#include <string>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// A failure that may be a consequence is judged only after Settings::settling, and any judgement
// waits for the API server. Somebody may delete the pod meanwhile; its failure is charged all the
// same. Not thread-safe.
class SeenFailures {
 public:
  // Adds the recorded pods that are gone to `observed.pods`, which is sorted by PlaceOf and stays
  // so. Forgets those that are counted or are no members any more. Requires: the `..._since` of
  // `observed.pods` are set after this call, so that they follow the steady clock.
  void AddGone(Observed& observed);
  // Records the members of the present attempt that have failed and are not counted, without an
  // Evaluator, which SeenEvaluator counts.
  void Note(const Observed& observed);

 private:
  std::map<Place, ObservedPod> failed_;
};

}  // namespace lockstep::controller
