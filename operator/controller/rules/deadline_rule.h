// Enforces runPolicy.activeDeadlineSeconds, counted from status.startTime, and
// pendingDeadlineSeconds, counted from then or from Observed::waiting_since. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Fails a job of which a deadline has passed.
std::optional<Plan> PlanDeadline(const Observed& observed);

// Returns true if pendingDeadlineSeconds may count: the job does not run, and not all replicas that
// it requires are up, without those that wait for others on purpose (dependsOn). Since when this is
// so is Observed::waiting_since.
bool IsWaiting(const Observed& observed);

// Returns the time left until the earlier of the job's deadlines, negative if it has passed;
// nullopt if it has none or is suspended. The deadline of a pending job counts only while the job
// is Pending, which it is until it has run once, and while not all required replicas are up; of
// Independent replicas, while none is.
std::optional<Duration> UntilDeadline(const Observed& observed);

}  // namespace lockstep::controller
