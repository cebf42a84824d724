// Jobs that should run: creates the wanted pods that are missing. Pure.
#pragma once

#include <optional>
#include <vector>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

// Deletes pods of other attempts, beyond the replica count, or already charged as failed; creates
// missing pods once old members are gone and the back-off is over, and those of a role that depends
// on others once these have got so far (AddStartedRoles). Running is True when every required
// replica is Ready or has succeeded, and stays so within an attempt. Applies to every job.
std::optional<Plan> PlanRunning(const Observed& observed);

// The deletes of PlanRunning: of pods that no replica needs any more, by force once that is due,
// and of an Evaluator's pod that is to be replaced.
void AddDeletes(const Observed& observed, Plan& plan);

// The creates of PlanRunning for some of the job's replicas: adds what they lack, or when to try
// again. Returns true if they lack nothing.
bool AddCreates(const Observed& observed, const std::vector<Replica>& wanted, Plan& plan);

}  // namespace lockstep::controller
