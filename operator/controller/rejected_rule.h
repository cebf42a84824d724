// A pod that the API server refuses for what its template says. Pure.
#pragma once

#include <optional>

#include "operator/controller/plan.h"

namespace lockstep::controller {

// Fails a job whose pods can never be made. Refusals that may pass (quota, admission, a missing
// service account) are told by PlanRunning and tried again.
std::optional<Plan> PlanRejected(const Observed& observed);

}  // namespace lockstep::controller
