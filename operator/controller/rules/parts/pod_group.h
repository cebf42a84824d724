// Keeps the PodGroup that a gang scheduler needs: created before the job's pods, deleted when the
// job has ended or is suspended. Pure.
#pragma once

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns true if the operator has a gang scheduler, but had none, or another one, when it created
// the attempt's pods. A pod that joined a group alone would never be placed, so the pods that
// replace others stay outside of it, too.
bool IsOutsideGang(const Observed& observed);

// Adds the action that creates or updates the PodGroup, if one is needed. Returns false if no pod
// may be created yet: the PodGroup does not exist, or does not count the pods of a role that has
// waited for others. Always returns true without a gang scheduler, and for an attempt that is
// outside of its gang.
bool AddPodGroup(const Observed& observed, Plan& plan);

// Adds the deletion of the PodGroup, if it exists.
void AddPodGroupDeletion(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
