// A job's PodGroup, with a gang scheduler: created before pods, deleted at the end. Pure.
#pragma once

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Adds the actions that bring the PodGroup to the job's needs. Returns false if it does not exist
// yet, so no pod may be created. Returns true without a gang scheduler.
bool AddPodGroup(const Observed& observed, Plan& plan);

// Adds the deletion of the PodGroup, if it exists. For a job that has ended or is suspended.
void AddPodGroupDeletion(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
