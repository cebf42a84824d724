#include "operator/controller/rules/invalid_rule.h"

#include "operator/controller/rules/parts/completions.h"
#include "operator/controller/rules/parts/status.h"

namespace lockstep::controller {
namespace {

// Returns true if the job has had pods, as far as this process or its status knows.
bool HasHadPods(const Observed& observed) {
  const api::TrainingJobStatus& status = observed.job.status;
  return !observed.pods.empty() || status.attempt > 0 || IsTrue(status, kRunning) ||
         !status.completed_indexes.empty() || !status.completed_helpers.empty() ||
         status.restart_count > 0;
}

}  // namespace

std::optional<Plan> PlanInvalid(const Observed& observed) {
  if (!observed.invalid || HasHadPods(observed)) return std::nullopt;
  return FailedPlan(observed, api::FailureReason::kInvalidSpec, *observed.invalid);
}

std::optional<Plan> PlanHeld(const Observed& observed) {
  if (!observed.invalid) return std::nullopt;
  Plan plan;
  plan.status = observed.job.status;
  RecordCompleted(observed, plan.status);
  plan.status.variants = VariantResults(observed);
  return plan;
}

void AddInvalidSpec(const Observed& observed, Plan& plan) {
  const std::string reason(NameOf(api::FailureReason::kInvalidSpec));
  const api::Condition* before = FindCondition(observed.job.status, kRunning);
  const bool is_new = before == nullptr || before->reason != reason;
  SetCondition(observed, plan.status, kRunning, IsTrue(plan.status, kRunning), reason,
               "no pod is created or restarted: " + *observed.invalid);
  if (is_new) {
    plan.events.push_back({PlannedEvent::Type::kWarning, reason, *observed.invalid});
  }
}

}  // namespace lockstep::controller
