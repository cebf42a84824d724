// Enforces runPolicy.activeDeadlineSeconds, counted from status.startTime. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Fails a job whose deadline has passed.
std::optional<Plan> PlanDeadline(const Observed& observed);

// Returns the time left until the deadline, negative if it has passed; nullopt if the job has no
// deadline or is suspended.
std::optional<Duration> UntilDeadline(const Observed& observed);

}  // namespace lockstep::controller
