#include "operator/metrics/job_transition.h"

#include <algorithm>

#include "api/v1/conditions.h"
#include "api/v1/names.h"

namespace lockstep::metrics {
namespace {

using api::FindCondition;
using api::IsTrue;
using api::TrainingJobStatus;

std::optional<double> SecondsBetween(std::optional<Time> from, Time to) {
  if (!from || to < *from) return std::nullopt;
  return std::chrono::duration<double>(to - *from).count();
}

// Returns true if an edit of the job is why its replicas start again: nothing was lost. The
// operator gives these reasons.
bool IsByEdit(const api::Condition& restart) {
  return restart.reason == "Rescaled" || restart.reason == "StrategyChanged";
}

void CompareRunning(const TrainingJobStatus& before, const TrainingJobStatus& after,
                    JobTransition& transition) {
  if (!IsTrue(after, api::kRunning) || IsTrue(before, api::kRunning)) return;
  const Time since = FindCondition(after, api::kRunning)->last_transition_time;
  if (IsTrue(before, api::kRestarting)) {
    const api::Condition& restart = *FindCondition(before, api::kRestarting);
    if (IsByEdit(restart)) return;
    transition.seconds_to_recover = SecondsBetween(restart.last_transition_time, since);
  } else if (after.restart_count == 0) {
    transition.seconds_to_running = SecondsBetween(after.start_time, since);
  }
}

}  // namespace

JobTransition Compare(const api::TrainingJob* before, const api::TrainingJob& after) {
  JobTransition transition;
  const TrainingJobStatus& now = after.status;
  if (before == nullptr) {
    // A job with a status existed before this process began and was counted then.
    transition.created = now.conditions.empty();
    return transition;
  }
  const TrainingJobStatus& then = before->status;
  const auto became_true = [&](const char* type) {
    return IsTrue(now, type) && !IsTrue(then, type);
  };
  transition.succeeded = became_true(api::kSucceeded);
  transition.failed = became_true(api::kFailed);
  if (transition.failed) {
    transition.failure_reason = FindCondition(now, api::kFailed)->reason;
  }
  transition.application_restarts =
      std::max(0, now.restarts.application - then.restarts.application);
  transition.disruption_restarts = std::max(0, now.restarts.disruption - then.restarts.disruption);
  transition.evaluator_restarts = std::max(0, now.restarts.evaluator - then.restarts.evaluator);
  CompareRunning(then, now, transition);
  return transition;
}

std::optional<Time> DivergedAt(const api::TrainingJob& job) {
  const std::optional<api::Failure>& failure = job.status.failure;
  if (!job.spec.training || !IsTrue(job.status, api::kFailed)) return std::nullopt;
  if (!failure || failure->exit_code != api::kExitDiverged) return std::nullopt;
  return FindCondition(job.status, api::kFailed)->last_transition_time;
}

std::int64_t DivergedVariants(const api::TrainingJob& job) {
  return std::ranges::count_if(job.status.variants, &api::VariantResult::diverged);
}

}  // namespace lockstep::metrics
