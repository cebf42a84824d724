// A job whose number of replicas has changed: an elastic one's by a spec edit or the scale
// subresource, any other's while it was suspended. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Where every member's cluster spec names all others (ClusterShape), all replicas start again as
// the next attempt, free of every budget. Elsewhere, and while all pods know the present size,
// nothing: PlanRunning adds and removes pods. A pod without the note of its size (an older operator
// made it) counts as one that knows.
std::optional<Plan> PlanRescaled(const Observed& observed);

}  // namespace lockstep::controller
