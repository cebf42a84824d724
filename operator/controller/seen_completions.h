// Remembers which workers have succeeded. Deterministic, but not stateless.
#pragma once

#include <map>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// The status that says so may be written a little later (Settings::completion_hold). A worker whose
// pod is deleted meanwhile must not run again. Not thread-safe.
class SeenCompletions {
 public:
  // Records the workers of the present attempt whose pods have succeeded, at `now`. Adds those of
  // them whose pods are gone, or are being deleted, to the completed indexes of `observed.job`, and
  // tells in observed.completed_since when they were first seen to have succeeded, if others may
  // wait for them (IsSharedWork).
  void Note(Observed& observed, SteadyTime now);

 private:
  int attempt_ = 0;
  std::map<int, SteadyTime> seen_;  // by index: when it was first seen
};

}  // namespace lockstep::controller
