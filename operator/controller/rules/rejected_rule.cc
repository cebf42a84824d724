#include "operator/controller/rules/rejected_rule.h"

#include <algorithm>

#include "operator/controller/rules/parts/status.h"

namespace lockstep::controller {

namespace {

bool HasBeenAccepted(const Observed& observed, api::Role role) {
  const api::TrainingJobStatus& status = observed.job.status;
  if (IsTrue(status, kRunning) || status.attempt > 0 || status.restart_count > 0) return true;
  if (!status.completed_indexes.empty()) return true;
  return std::ranges::any_of(observed.pods,
                             [role](const ObservedPod& pod) { return pod.role == role; });
}

}  // namespace

std::optional<Plan> PlanRejected(const Observed& observed) {
  if (!observed.create_fault || !observed.create_fault->invalid_pod) return std::nullopt;
  if (HasBeenAccepted(observed, *observed.create_fault->invalid_pod)) return std::nullopt;
  return FailedPlan(observed, api::FailureReason::kPodRejected, observed.create_fault->message);
}

}  // namespace lockstep::controller
