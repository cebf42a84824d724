// Jobs that this operator does not touch. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns true if the job is being deleted, or spec.managedBy names another controller.
bool IsLeftAlone(const api::TrainingJob& job);

// Plans nothing for a job of another manager (spec.managedBy) and for one that is being deleted,
// whose children the garbage collector deletes.
std::optional<Plan> PlanLeftAlone(const Observed& observed);

}  // namespace lockstep::controller
