#include "operator/controller/attempt.h"

#include "operator/controller/status.h"

namespace lockstep::controller {

void OpenNextAttempt(const Observed& observed, const std::string& reason,
                     const std::string& message, api::TrainingJobStatus& status) {
  ++status.attempt;
  status.counted_pods.clear();
  if (!api::HasStrategy(observed.job.spec, api::StrategyType::kIndependent)) {
    status.completed_indexes.clear();
  }
  ClearCondition(observed, status, kRunning, reason, message);
  SetCondition(observed, status, kRestarting, true, reason, message);
}

}  // namespace lockstep::controller
