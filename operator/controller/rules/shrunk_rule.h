// Jobs that an edit has left only replicas that have finished. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Restarts all replicas as the next attempt, free of every budget, if an edit of a running job
// removes all those that decide its success and still train: the others would end it as succeeded
// (IsOverByEditAlone). What they have done is in their checkpoints. A removed one that has not
// started, or has ended, does not train: without it, the job is over. Applies only until the status
// knows the edit, after which nobody can tell.
std::optional<Plan> PlanShrunk(const Observed& observed);

}  // namespace lockstep::controller
