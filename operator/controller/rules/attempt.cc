#include "operator/controller/rules/attempt.h"

#include <algorithm>

#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/status.h"

namespace lockstep::controller {
namespace {

void ForgetAllCompleted(api::TrainingJobStatus& status) {
  status.completed_indexes.clear();
  status.variants.clear();
}

}  // namespace

void ForgetCompleted(const api::TrainingJob& job, api::TrainingJobStatus& status) {
  if (!api::HasStrategy(job.spec, api::StrategyType::kIndependent)) ForgetAllCompleted(status);
}

bool NotesShape(const Observed& observed, const ObservedPod& pod) {
  return pod.attempt == observed.job.status.attempt && pod.role != api::Role::kEvaluator &&
         !pod.cluster_shape.empty();
}

std::optional<bool> IsIndependentAttempt(const Observed& observed) {
  const auto pod = std::ranges::find_if(
      observed.pods, [&observed](const ObservedPod& each) { return NotesShape(observed, each); });
  if (pod == observed.pods.end()) return std::nullopt;
  return pod->cluster_shape == kIndependentShape;
}

bool HasOtherStrategy(const Observed& observed) {
  const bool independent = api::HasStrategy(observed.job.spec, api::StrategyType::kIndependent);
  return IsIndependentAttempt(observed).value_or(independent) != independent;
}

void CloseAttempt(const Observed& observed, api::TrainingJobStatus& status) {
  ++status.attempt;
  status.counted_pods.clear();
  // The next attempt has no completed replicas yet; see HasCompleted.
  for (auto& [role, counts] : status.replica_statuses) counts.succeeded = 0;
  ForgetCompleted(observed.job, status);
  if (HasOtherStrategy(observed)) ForgetAllCompleted(status);
}

void OpenNextAttempt(const Observed& observed, const std::string& reason,
                     const std::string& message, api::TrainingJobStatus& status) {
  CloseAttempt(observed, status);
  ClearCondition(observed, status, kRunning, reason, message);
  SetCondition(observed, status, kRestarting, true, reason, message);
}

}  // namespace lockstep::controller
