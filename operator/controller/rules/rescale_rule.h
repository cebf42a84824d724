// Jobs whose replica count or strategy has changed: an elastic job's count by a spec edit or the
// scale subresource, anything else while the job was suspended. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Restarts all replicas as the next attempt, free of every budget, if every member's cluster spec
// names all others (ClusterShape) and a pod has another size, unless the group follows in place
// (FollowsInPlace); if the group has another size and does not follow; if a pod of an elastic job
// was told of another leader or other parameter servers (ElasticPeers), or of bounds that do not
// include the number of workers; or if the attempt has another strategy (HasOtherStrategy).
// Otherwise returns nullopt, and PlanRunning adds and removes pods. A pod without a note (an older
// operator created it) counts as up to date.
std::optional<Plan> PlanRescaled(const Observed& observed);

}  // namespace lockstep::controller
