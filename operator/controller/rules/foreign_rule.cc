#include "operator/controller/rules/foreign_rule.h"

#include "operator/controller/state/job_facts.h"

namespace lockstep::controller {

std::optional<Plan> PlanForeign(const Observed& observed) {
  if (!IsForeign(observed.job)) return std::nullopt;
  Plan plan;
  plan.status = observed.job.status;
  return plan;
}

}  // namespace lockstep::controller
