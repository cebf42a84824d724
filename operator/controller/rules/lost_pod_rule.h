// Pods whose node is gone: nobody confirms their end, so it is not waited for. Pure.
#pragma once

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// True if the pod's node has been silent for Settings::node_lost_after, or is silent and the job's
// training group misses the pod's replica.
bool IsUnreachable(const Observed& observed, const ObservedPod& pod);

// Adds a forced deletion for each pod, of whatever attempt, that is still there
// Settings::stuck_deletion after its grace period, and a requeue for the next that may be.
void AddForcedDeletes(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
