// The PodGroup of a job, where a gang scheduler is used: made before pods, gone at the end. Pure.
#pragma once

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Adds what brings the PodGroup to what the job needs. False: it is not there yet, so no pod may be
// made. True without a gang scheduler.
bool AddPodGroup(const Observed& observed, Plan& plan);

// Adds its deletion, if there is one: of a job that has ended or is suspended.
void AddPodGroupDeletion(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
