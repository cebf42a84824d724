// A job that should run: wanted pods minus seen pods. Pure.
#pragma once

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Deletes pods of other attempts, beyond the replica count, or already charged as lost; creates
// what is missing once old members are gone and the back-off is over. Running is True when every
// required replica is Ready or has succeeded, and stays so within an attempt.
Plan PlanRunning(const Observed& observed);

}  // namespace lockstep::controller
