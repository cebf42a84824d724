// Which workers of an elastic job have been there. Pure but for what it has noted.
#pragma once

#include <vector>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// A job runs with its minimum, which may be raised meanwhile. So that it runs is no sign that the
// other workers have been there: a quota may never have let them in. Not thread-safe.
class SeenWorkers {
 public:
  // Notes the workers whose pods `observed` has. Returns, in order, the indexes of those whose pods
  // an earlier call has seen in the present attempt, since or just before the job ran, that have
  // not finished and are not there now.
  std::vector<int> Note(const Observed& observed);

 private:
  int attempt_ = 0;
  std::vector<bool> seen_;  // by index
};

}  // namespace lockstep::controller
