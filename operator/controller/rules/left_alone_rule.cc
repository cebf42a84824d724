#include "operator/controller/rules/left_alone_rule.h"

namespace lockstep::controller {
namespace {

// spec.managedBy of our jobs, if it is not empty.
constexpr char kManagedBy[] = "training.lockstep.dev/operator";

}  // namespace

bool IsLeftAlone(const api::TrainingJob& job) {
  const std::string& managed_by = job.spec.managed_by;
  const bool foreign = !managed_by.empty() && managed_by != kManagedBy;
  return foreign || job.metadata.deletion_time.has_value();
}

std::optional<Plan> PlanLeftAlone(const Observed& observed) {
  if (!IsLeftAlone(observed.job)) return std::nullopt;
  Plan plan;
  plan.status = observed.job.status;
  return plan;
}

}  // namespace lockstep::controller
