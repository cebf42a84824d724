// Jobs of another controller, which this operator does not touch. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Plans nothing for a job of another controller.
std::optional<Plan> PlanForeign(const Observed& observed);

}  // namespace lockstep::controller
