// Applies the rules in their order.
#pragma once

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns what to do about the job. Pure: the same Observed gives the same Plan.
Plan MakePlan(const Observed& observed);

}  // namespace lockstep::controller
