// Jobs whose spec cannot be used. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Fails a job whose spec is unusable and that has never had pods.
std::optional<Plan> PlanInvalid(const Observed& observed);

// Leaves the pods of any other such job as they are. A spec that was valid and no longer is has met
// another version of the schema or of this program. Until they agree again, no pod is created and
// no failure is judged, since both need a spec; only completed indexes are recorded.
std::optional<Plan> PlanHeld(const Observed& observed);

// Reports in the condition Running, and once in an event, that the spec is unusable. For every plan
// of such a job that does not end it. Requires observed.invalid.
void AddInvalidSpec(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
