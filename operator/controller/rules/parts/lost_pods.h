// Decides when the rules stop waiting for a kubelet to confirm that a pod has ended: its node is
// lost, or its deletion is stuck. Pure.
#pragma once

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns true if the pod's node has been silent for Settings::node_lost_after, or is silent and
// the job's training group has lost the pod's replica, too; for the leading replica, if its pod no
// longer answers the operator.
bool IsUnreachable(const Observed& observed, const ObservedPod& pod);

// For each pod that is being deleted, of any attempt, adds a forced deletion once it is due: at
// once if the pod is unreachable, after its grace period if its node is silent, and otherwise
// Settings::stuck_deletion after its grace period. Until then it sets plan.requeue_after; so it
// does for each pod whose node is silent or of unknown state.
void AddForcedDeletes(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
