// Remembers which workers of an elastic job have started. Deterministic, but not stateless.
#pragma once

#include <vector>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// An elastic job runs with its minimum, which may change, so a running job is no evidence that the
// other workers ever started: a quota may have kept them out, or no node had room. Not thread-safe.
class SeenWorkers {
 public:
  // Records the workers whose pods have started according to `observed`. Returns, in order, the
  // indexes of workers that have no pod and have not finished, but whose pods an earlier call saw
  // started in the present attempt, since or just before the workers were up (HasBeenUp).
  std::vector<int> UpdateGone(const Observed& observed);
  // Returns, in order, the indexes of workers that UpdateGone has seen started, there or gone.
  std::vector<int> Started() const;

 private:
  int attempt_ = 0;
  std::vector<bool> seen_;  // by index
};

}  // namespace lockstep::controller
