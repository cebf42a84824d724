// Pods whose node is gone: no kubelet confirms their end, so the rules do not wait for it. Pure.
#pragma once

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns true if the pod's node has been silent for Settings::node_lost_after, or is silent and
// the job's training group misses the pod's replica.
bool IsUnreachable(const Observed& observed, const ObservedPod& pod);

// Adds a forced deletion for each pod, of any attempt, that still exists Settings::stuck_deletion
// after its grace period (at once after it, if its node is silent), and a requeue for the next such
// pod.
void AddForcedDeletes(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
