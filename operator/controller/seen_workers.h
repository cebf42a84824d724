// Remembers which workers of an elastic job have existed. Deterministic, but not stateless.
#pragma once

#include <vector>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// An elastic job runs with its minimum, which may change, so a running job is no evidence that the
// other workers ever existed: a quota may have kept them out. Not thread-safe.
class SeenWorkers {
 public:
  // Records the workers whose pods `observed` has. Returns, in order, the indexes of workers that
  // are missing and have not finished, but whose pods an earlier call saw in the present attempt,
  // since or just before the job ran.
  std::vector<int> Note(const Observed& observed);

 private:
  int attempt_ = 0;
  std::vector<bool> seen_;  // by index
};

}  // namespace lockstep::controller
