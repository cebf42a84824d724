// A pod that the API server finds invalid, for what its template says. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Fails a job whose pods can never be created. Refusals that may pass (a quota, admission, a
// missing service account) are reported by PlanRunning, and the create is tried again. So is one of
// a pod like those that the server has accepted before: the template is not at fault, and the job's
// work is not thrown away for what has changed around it.
std::optional<Plan> PlanRejected(const Observed& observed);

}  // namespace lockstep::controller
