// How a job ends well, and what is left to do once it has ended. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// A job with a terminal condition: pods are cleaned up (cleanPodPolicy), the job is deleted when
// its time to live has passed, and its status is never touched again.
std::optional<Plan> PlanFinished(const Observed& observed);

// A job that has met its success policy. An active Evaluator gets Settings::evaluator_grace first.
std::optional<Plan> PlanSucceeded(const Observed& observed);

}  // namespace lockstep::controller
