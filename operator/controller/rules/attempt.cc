#include "operator/controller/rules/attempt.h"

#include "operator/controller/rules/status.h"

namespace lockstep::controller {

void ForgetCompleted(const api::TrainingJob& job, api::TrainingJobStatus& status) {
  if (!api::HasStrategy(job.spec, api::StrategyType::kIndependent)) {
    status.completed_indexes.clear();
  }
}

void CloseAttempt(const api::TrainingJob& job, api::TrainingJobStatus& status) {
  ++status.attempt;
  status.counted_pods.clear();
  // The next attempt has no completed replicas yet; see HasCompleted.
  for (auto& [role, counts] : status.replica_statuses) counts.succeeded = 0;
  ForgetCompleted(job, status);
}

void OpenNextAttempt(const Observed& observed, const std::string& reason,
                     const std::string& message, api::TrainingJobStatus& status) {
  CloseAttempt(observed.job, status);
  ClearCondition(observed, status, kRunning, reason, message);
  SetCondition(observed, status, kRestarting, true, reason, message);
}

}  // namespace lockstep::controller
