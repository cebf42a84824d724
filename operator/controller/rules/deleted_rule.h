// Jobs that are being deleted and still exist, because a finalizer holds them. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Stops a job that is being deleted: deletes its PodGroup and its pods, those of a silent node by
// force; and its Workload, which gives the quota back, once none of the pods runs or waits. The
// garbage collector deletes nothing before the finalizers are gone, which may be never, so that the
// job would run on with neither suspension nor deadline nor eviction to stop it. Pods that have
// ended are left to the garbage collector: they hold nothing, and the finalizer's owner may have
// come for their logs. Plans nothing if the job's children are to be kept. Writes no status.
std::optional<Plan> PlanDeleted(const Observed& observed);

}  // namespace lockstep::controller
