#include "operator/controller/rules/deadline_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "api/v1/strategy_traits.h"
#include "operator/controller/rules/parts/pending_reason.h"
#include "operator/controller/rules/parts/readiness.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/replicas.h"
#include "operator/controller/state/times.h"

namespace lockstep::controller {
namespace {

Time StartedAt(const Observed& observed) {
  return observed.started_at.value_or(StartTime(observed));
}

std::optional<Duration> UntilActiveDeadline(const Observed& observed) {
  const auto& seconds = observed.job.spec.run_policy.active_deadline_seconds;
  if (!seconds || observed.job.spec.suspend) return std::nullopt;
  return SecondsAfter(StartedAt(observed), *seconds) - observed.now;
}

// One replica is enough if replicas train alone, whatever has become of its pod.
bool HasTrainedInPart(const api::TrainingJob& job) {
  return api::TraitsOf(job.spec).trains_alone && !job.status.completed_indexes.empty();
}

// A job that waits for its back-off is Restarting, and one that waits for quota is Suspended. The
// status alone does not tell that a job waits: while no operator ran, it may have begun to train.
std::optional<Duration> UntilPendingDeadline(const Observed& observed) {
  const auto& seconds = observed.job.spec.run_policy.pending_deadline_seconds;
  const bool is_pending = StateOf(observed.job.status) == kPending;
  if (!seconds || observed.job.spec.suspend || !is_pending) return std::nullopt;
  if (!observed.waiting_since || HasTrainedInPart(observed.job)) return std::nullopt;
  const Time since = std::max(StartedAt(observed), *observed.waiting_since);
  return SecondsAfter(since, *seconds) - observed.now;
}

struct Deadline {
  Duration left;
  bool is_active = true;  // activeDeadlineSeconds; else pendingDeadlineSeconds
};

// Returns the deadline that comes first; of two that have passed, the active one.
std::optional<Deadline> FirstDeadline(const Observed& observed) {
  const std::optional<Duration> active = UntilActiveDeadline(observed);
  const std::optional<Duration> pending = UntilPendingDeadline(observed);
  if (active && (!pending || *active <= std::max(*pending, Duration::zero()))) {
    return Deadline{.left = *active};
  }
  if (pending) return Deadline{.left = *pending, .is_active = false};
  return std::nullopt;
}

// status.failure is of jobs that end by a replica's failure. What went wrong before a deadline may
// still be why it passed.
std::string LastFailure(const api::TrainingJobStatus& status) {
  if (!status.failure) return "";
  const api::Failure& last = *status.failure;
  std::vector<std::string> how;
  if (!last.reason.empty()) how.push_back(last.reason);
  if (last.exit_code != 0) how.push_back(fmt::format("exit code {}", last.exit_code));
  return fmt::format("; the last failure was that of {}-{} ({})", last.role, last.index,
                     fmt::join(how, ", "));
}

}  // namespace

bool IsWaiting(const Observed& observed) {
  return !IsTrue(observed.job.status, kRunning) && !ReadinessOf(observed).started;
}

std::optional<Duration> UntilDeadline(const Observed& observed) {
  const std::optional<Deadline> first = FirstDeadline(observed);
  return first ? std::optional(first->left) : std::nullopt;
}

std::optional<Plan> PlanDeadline(const Observed& observed) {
  const api::RunPolicySpec& policy = observed.job.spec.run_policy;
  const std::optional<Deadline> first = FirstDeadline(observed);
  if (!first || first->left > Duration::zero()) return std::nullopt;
  if (first->is_active) {
    return FailedPlan(observed, api::FailureReason::kDeadlineExceeded,
                      fmt::format("the job was active for longer than activeDeadlineSeconds ({})",
                                  *policy.active_deadline_seconds) +
                          LastFailure(observed.job.status));
  }
  std::string message =
      fmt::format("the job was Pending for longer than pendingDeadlineSeconds ({})",
                  *policy.pending_deadline_seconds);
  if (const auto reason = FindPendingReason(observed)) message += ": " + reason->message;
  message += LastFailure(observed.job.status);
  return FailedPlan(observed, api::FailureReason::kPendingDeadlineExceeded, message);
}

}  // namespace lockstep::controller
