// An elastic job whose number of workers has changed: spec edit or scale subresource. Pure.
#pragma once

#include <optional>

#include "operator/controller/plan.h"

namespace lockstep::controller {

// Where every member's cluster spec names all others (ClusterShape), all replicas start again as
// the next attempt, free of every budget. Elsewhere, and while all pods know the present size,
// nothing: PlanRunning adds and removes pods.
std::optional<Plan> PlanRescaled(const Observed& observed);

}  // namespace lockstep::controller
