// Remembers which workers have succeeded. Deterministic, but not stateless.
#pragma once

#include <set>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// The status that says so may be written a little later (Settings::completion_hold). A worker whose
// pod is deleted meanwhile must not run again. Not thread-safe.
class SeenCompletions {
 public:
  // Records the workers of the present attempt whose pods have succeeded. Adds those of them whose
  // pods are gone, or are being deleted, to the completed indexes of `observed.job`.
  void Note(Observed& observed);

 private:
  int attempt_ = 0;
  std::set<int> seen_;  // indexes
};

}  // namespace lockstep::controller
