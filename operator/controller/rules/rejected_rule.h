// Pods that the API server rejects as invalid because of their template. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Fails a job whose pods can never be created. Rejections that may pass (a quota, admission, a
// missing service account) are reported by PlanRunning, and the create is retried. So is the create
// of a pod whose like the server has accepted before: the template is not at fault, and the job's
// work must not be lost to a change around it.
std::optional<Plan> PlanRejected(const Observed& observed);

}  // namespace lockstep::controller
