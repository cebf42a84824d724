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
  // Records the members of the present attempt that have failed and are not counted, without an
  // Evaluator, which SeenEvaluator counts. Adds those of them whose pods are gone to
  // `observed.pods`, as they were when they were last seen. Forgets a pod once it is counted or is
  // no member any more. Requires: the `..._since` of `observed.pods` are set.
  void Note(Observed& observed);

 private:
  std::map<std::string, ObservedPod> failed_;  // by uid
};

}  // namespace lockstep::controller
