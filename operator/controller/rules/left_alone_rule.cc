#include "operator/controller/rules/left_alone_rule.h"

namespace lockstep::controller {
namespace {

// spec.managedBy of our jobs, if it is not empty.
constexpr char kManagedBy[] = "training.lockstep.dev/operator";

}  // namespace

std::optional<Plan> PlanLeftAlone(const Observed& observed) {
  const std::string& managed_by = observed.job.spec.managed_by;
  const bool foreign = !managed_by.empty() && managed_by != kManagedBy;
  if (!foreign && !observed.job.metadata.deletion_time) return std::nullopt;
  Plan plan;
  plan.status = observed.job.status;
  return plan;
}

}  // namespace lockstep::controller
