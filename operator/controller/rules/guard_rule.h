// What keeps strangers from a job's pods, and is there before them: the Secret with the job's token
// and the NetworkPolicy. The operator may create them and not read them, so it does not know
// whether somebody has deleted them: they are created again for each attempt, and when a pod that
// never began is replaced. What an attempt began without is not added to it: its pods carry a note
// of each.
#pragma once

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// True if the pods of the job's present attempt have its token, as spec.jobToken asks for. All have
// it or none: one that has cannot join one that has not. So who is made later follows the pods that
// are there, whatever the operator that made those was told.
bool HasToken(const Observed& observed);

// True if the present attempt has a NetworkPolicy. One that began without it stays without: the
// policy selects all pods of the job, and could cut connections that they have.
bool HasNetworkPolicy(const Observed& observed);

// The operator's trainer image that the present attempt's pods were created with, if the operator
// has another one now: trainers of two versions may not understand each other. Empty if it has not,
// or if no such pod has started and one of them cannot get that image: it must not be used again.
std::string TrainerImage(const Observed& observed, api::Role role);

// For a plan that makes pods. If the attempt has some, a refusal does not keep a pod from its peers
// (CreateTokenSecret::is_repeat).
void AddGuards(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
