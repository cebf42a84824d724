#include "operator/controller/rules/foreign_rule.h"

namespace lockstep::controller {
namespace {

// spec.managedBy of our jobs, if it is not empty.
constexpr char kManagedBy[] = "training.lockstep.dev/operator";

}  // namespace

bool IsForeign(const api::TrainingJob& job) {
  const std::string& managed_by = job.spec.managed_by;
  return !managed_by.empty() && managed_by != kManagedBy;
}

std::optional<Plan> PlanForeign(const Observed& observed) {
  if (!IsForeign(observed.job)) return std::nullopt;
  Plan plan;
  plan.status = observed.job.status;
  return plan;
}

}  // namespace lockstep::controller
