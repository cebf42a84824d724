// Remembers which workers and helpers have succeeded. Deterministic, but not stateless.
#pragma once

#include <map>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// The status that says so may be written a little later (Settings::completion_hold). A replica
// whose pod is deleted meanwhile must not run again. Not thread-safe.
class SeenCompletions {
 public:
  // Records those of the present attempt whose pods have succeeded, at `now`. Adds those of them
  // whose pods are gone, or are being deleted, to the completed ones of `observed.job`, and tells
  // in observed.completed_since when workers were first seen to have succeeded, if others may wait
  // for them (IsSharedWork).
  void Annotate(Observed& observed, SteadyTime now);

 private:
  int attempt_ = 0;
  std::map<Replica, SteadyTime> seen_;  // when it was first seen
};

}  // namespace lockstep::controller
