#include "operator/controller/rules/parts/failure_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <utility>

#include "api/v1/names.h"
#include "base/shorten.h"
#include "operator/controller/rules/parts/progress_deadline.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// Bytes; the CRD allows at least as many characters.
constexpr std::size_t kLongestFailureReason = 512, kLongestFailureMessage = 16'384,
                      kLongestFailureNode = 253;

// " (OOMKilled)"; empty if the reason says no more than that the exit code is not 0.
std::string Parenthesized(const std::string& reason) {
  return reason.empty() || reason == "Error" ? "" : fmt::format(" ({})", reason);
}

// Returns the init container that has failed if the pod has failed, or restarts, for that; else
// null.
const Blocker* FailedInit(const PodFailure& failure) {
  const ObservedPod& pod = *failure.pod;
  if (failure.cause == PodFailureCause::kDisruption || pod.termination || WasEndedByNode(pod)) {
    return nullptr;
  }
  const bool has_failed = !pod.blockers.empty() && pod.blockers.front().exit_code != 0;
  return has_failed ? &pod.blockers.front() : nullptr;
}

bool HasVanished(const PodFailure& failure) {
  return failure.pod == nullptr || failure.pod->is_gone;
}

api::Failure WithShortTexts(api::Failure failure) {
  failure.node = Shortened(std::move(failure.node), kLongestFailureNode);
  failure.reason = Shortened(std::move(failure.reason), kLongestFailureReason);
  failure.message = Shortened(std::move(failure.message), kLongestFailureMessage, " …");
  return failure;
}

}  // namespace

std::string EndOfInit(const Blocker& init, std::string_view pod) {
  return fmt::format("{} of {} exited with code {}{}", init.container, pod, init.exit_code,
                     Parenthesized(init.reason));
}

std::string OnNode(const std::string& node) {
  return node.empty() ? "" : fmt::format(" on node {}", node);
}

std::string Describe(const PodFailure& failure) {
  const std::string who = Describe(failure.replica);
  if (!failure.stall.empty()) return failure.stall;
  if (HasVanished(failure)) return fmt::format("the pod of {} has vanished", who);
  const ObservedPod& pod = *failure.pod;
  const std::string where = OnNode(pod.node);
  if (pod.termination && !WasEndedByNode(pod)) {
    return fmt::format("{}{} exited with code {}{}", who, where, pod.termination->exit_code,
                       Parenthesized(pod.termination->reason));
  }
  if (const Blocker* init = FailedInit(failure)) return EndOfInit(*init, who + where);
  if (!pod.reason.empty()) return fmt::format("{}{} was lost: {}", who, where, pod.reason);
  if (pod.disruption_target) {
    return fmt::format("{}{} was disrupted: {}", who, where, pod.disruption_reason);
  }
  const char* how = PodFailed(pod) ? "has failed" : "waits for replicas that have finished";
  if (pod.being_deleted) how = "is being deleted";
  if (!PodFailed(pod) && pod.node_silent_since) how = "cannot be reached: its node is silent";
  return fmt::format("the pod of {}{} {}", who, where, how);
}

std::string DelayText(Duration delay) {
  const auto seconds = std::chrono::round<std::chrono::seconds>(delay);
  return seconds.count() <= 0 ? "" : fmt::format(" in {}", seconds);
}

api::Failure FailureOf(const PodFailure& failure) {
  api::Failure entry{.role = std::string(api::RoleName(failure.replica.role)),
                     .index = failure.replica.index,
                     .node = "",
                     .exit_code = 0,
                     .reason = "PodVanished",
                     .message = ""};
  if (HasVanished(failure)) return entry;
  const ObservedPod& pod = *failure.pod;
  entry.node = pod.node;
  if (!failure.stall.empty()) {
    entry.reason = failure.stall_reason;
    entry.message = failure.stall;
    return WithShortTexts(std::move(entry));
  }
  if (const Blocker* init = FailedInit(failure)) {
    entry.exit_code = init->exit_code;
    entry.reason = kInitContainerFailed;
    entry.message = EndOfInit(*init, Describe(failure.replica));
    if (!init->message.empty()) entry.message += ": " + init->message;
    return WithShortTexts(std::move(entry));
  }
  entry.reason = pod.reason.empty() ? pod.disruption_reason : pod.reason;
  if (entry.reason.empty()) entry.reason = pod.node_silent_since ? kNodeLost : "PodLost";
  entry.message = pod.message;
  // The end before the kubelet's last restart explains most about a pod that keeps restarting.
  const auto& end = pod.termination ? pod.termination : pod.last_end;
  if (end) entry.exit_code = end->exit_code;
  if (end && !WasEndedByNode(pod)) {
    entry.reason = end->reason;
    entry.message = end->message;
  }
  return WithShortTexts(std::move(entry));
}

}  // namespace lockstep::controller
