// Enforces runPolicy.activeDeadlineSeconds and pendingDeadlineSeconds, both counted from
// status.startTime. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Fails a job of which a deadline has passed.
std::optional<Plan> PlanDeadline(const Observed& observed);

// Returns the time left until the earlier of the job's deadlines, negative if it has passed;
// nullopt if it has none or is suspended. The deadline of a pending job counts only while the job
// is Pending, which it is until it has run once, and not once all required replicas are up.
std::optional<Duration> UntilDeadline(const Observed& observed);

}  // namespace lockstep::controller
