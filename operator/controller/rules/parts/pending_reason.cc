#include "operator/controller/rules/parts/pending_reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/rfc3339.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/rules/parts/failure_report.h"
#include "operator/controller/rules/parts/readiness.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

constexpr char kNotSeen[] = "CheckpointsNotSeen", kPodWaiting[] = "PodWaiting";

// A kubelet alternates between these two reasons while it retries.
std::string StableReason(const std::string& reason) {
  return reason == "ErrImagePull" ? "ImagePullBackOff" : reason;
}

// Returns the condition's present text if it gives this cause already; otherwise, the cause with
// `message`.
PendingReason WithDetails(const Observed& observed, const char* reason, const std::string& cause,
                          const std::string& message) {
  const api::Condition* before = FindCondition(observed.job.status, kRunning);
  const bool is_said =
      before != nullptr && (before->message == cause || before->message.starts_with(cause + ": "));
  if (is_said) return {reason, before->message};
  return {reason, message.empty() ? cause : fmt::format("{}: {}", cause, message)};
}

std::optional<PendingReason> WaitingContainer(const Observed& observed) {
  for (const ObservedPod& pod : observed.pods) {
    if (!IsMember(observed, pod) || !IsActive(pod)) continue;
    if (IsStuck(pod.waiting_reason)) {
      return WithDetails(
          observed, kPodWaiting,
          fmt::format("{} is waiting: {}", pod.name, StableReason(pod.waiting_reason)),
          pod.waiting_message);
    }
    if (pod.blockers.empty()) continue;
    const Blocker& blocker = pod.blockers.front();
    if (blocker.exit_code != 0) {
      return WithDetails(observed, kInitContainerFailed, EndOfInit(blocker, pod.name),
                         blocker.message);
    }
    return WithDetails(observed, kPodWaiting,
                       fmt::format("{} of {} is waiting: {}", blocker.container, pod.name,
                                   StableReason(blocker.reason)),
                       blocker.message);
  }
  return std::nullopt;
}

std::optional<PendingReason> DeletedUnstarted(const Observed& observed) {
  if (!observed.deleted_unstarted) return std::nullopt;
  const auto& [role, index] = *observed.deleted_unstarted;
  return PendingReason{
      "PodDeleted",
      fmt::format(
          "{} has been deleted more than once before it had started; the operator waits for "
          "up to 30 s before it creates it again",
          PodName(observed.job, role, index))};
}

std::optional<PendingReason> NoPlace(const Observed& observed) {
  for (const ObservedPod& pod : observed.pods) {
    if (!IsMember(observed, pod) || pod.unschedulable.empty()) continue;
    return PendingReason{"Unschedulable",
                         fmt::format("no node takes {}: {}", pod.name, pod.unschedulable)};
  }
  return std::nullopt;
}

std::optional<PendingReason> OldPod(const Observed& observed) {
  for (const ObservedPod& pod : observed.pods) {
    if (pod.attempt == observed.job.status.attempt) continue;
    return PendingReason{"OldPodsTerminating",
                         fmt::format("{} of the previous attempt has not ended yet", pod.name),
                         false};
  }
  return std::nullopt;
}

// No fault: Kueue opens its own gates when there is room.
std::optional<PendingReason> Gated(const Observed& observed) {
  for (const ObservedPod& pod : observed.pods) {
    if (!IsMember(observed, pod) || pod.waiting_reason != kSchedulingGated) continue;
    return PendingReason{kSchedulingGated,
                         fmt::format("{} waits until somebody removes its scheduling gates: {}",
                                     pod.name, pod.waiting_message),
                         false};
  }
  return std::nullopt;
}

std::optional<PendingReason> UnseenVolume(const Observed& observed) {
  if (!MissesCheckpoints(observed)) return std::nullopt;
  return PendingReason{kNotSeen,
                       "the Evaluator does not see the checkpoints that the leading pod saves: is "
                       "checkpoint.directory on a volume that both pods mount?"};
}

std::optional<PendingReason> BackOff(const Observed& observed) {
  const auto& retry = observed.job.status.next_retry_time;
  if (!retry || *retry <= observed.now) return std::nullopt;
  return PendingReason{kBackOff,
                       fmt::format("the next restart is due at {}", FormatRfc3339(*retry)), false};
}

std::optional<PendingReason> StartOrder(const Observed& observed) {
  std::string text = WaitsText(observed);
  if (text.empty()) return std::nullopt;
  return PendingReason{kWaitsForRole, std::move(text), false};
}

}  // namespace

bool MissesCheckpoints(const Observed& observed) {
  const ObservedPod* pod = FindPod(observed, {api::Role::kEvaluator, 0});
  if (pod == nullptr || !IsMember(observed, *pod) || !IsActive(*pod)) return false;
  const api::Condition* running = FindCondition(observed.job.status, kRunning);
  const bool was_said = running != nullptr && running->reason == kNotSeen;
  return observed.group.evaluator_misses_checkpoints.value_or(was_said);
}

std::optional<PendingReason> FindPendingReason(const Observed& observed) {
  if (observed.create_fault) return PendingReason{"CreateFailed", observed.create_fault->message};
  if (observed.action_fault) {
    return PendingReason{observed.action_fault->reason, observed.action_fault->message};
  }
  if (!observed.name_conflicts.empty()) {
    return PendingReason{"NameConflict",
                         fmt::format("an object named {} exists and belongs to another owner",
                                     observed.name_conflicts.front())};
  }
  // Faults that somebody must fix come before those that pass by themselves.
  for (const auto find : {WaitingContainer, NoPlace, DeletedUnstarted, UnseenVolume, OldPod, Gated,
                          BackOff, StartOrder}) {
    if (auto reason = find(observed)) return reason;
  }
  return std::nullopt;
}

}  // namespace lockstep::controller
