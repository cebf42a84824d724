#include "operator/controller/memory/job_signs.h"

#include <algorithm>

namespace lockstep::controller {

void JobSigns::Update(bool lacks_replicas, const api::RestartCounts& restarts, Time now) {
  if (!lacks_replicas) {
    short_since_.reset();
  } else if (!short_since_) {
    short_since_ = now;
  }
  for (const auto of : {&api::RestartCounts::application, &api::RestartCounts::disruption,
                        &api::RestartCounts::evaluator}) {
    restarts_.*of += std::max(0, restarts.*of - seen_.*of);
  }
  seen_ = restarts;
}

}  // namespace lockstep::controller
