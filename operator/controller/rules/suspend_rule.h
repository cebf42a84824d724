// spec.suspend: no pods, but everything that was counted is kept. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// A suspended job, or one that Kueue stops: first says so and closes the attempt, then deletes its
// pods.
std::optional<Plan> PlanSuspended(const Observed& observed);

}  // namespace lockstep::controller
