// What keeps strangers from a job's pods, and is there before them: the Secret with the job's token
// and the NetworkPolicy. The operator may create them and not read them, so it does not know
// whether they are there: they are created again whenever pods are to be made.
#pragma once

#include "operator/controller/observed.h"
#include "operator/controller/plan.h"

namespace lockstep::controller {

// True if the pods of the job's present attempt have its token. All have it or none: one that has
// cannot join one that has not. So who is made later follows the pods that are there, whatever the
// operator that made those was told.
bool HasToken(const Observed& observed);

// For a plan that makes pods.
void PlanGuards(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
