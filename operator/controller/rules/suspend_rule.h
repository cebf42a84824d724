// spec.suspend: the job has no pods, but keeps all its counts. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Handles a suspended job, or one that Kueue stops: first sets the condition and closes the
// attempt, then deletes the pods.
std::optional<Plan> PlanSuspended(const Observed& observed);

// Handles a job that is no longer suspended but whose status still says so: clears the condition.
// Pods are created once that is written.
std::optional<Plan> PlanResumed(const Observed& observed);

}  // namespace lockstep::controller
