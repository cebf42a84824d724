#include "operator/cli/cluster/pod_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/controller/state/main_container.h"

namespace lockstep::cli {
namespace {

using kube::Member;
using kube::Object;
using kube::TextMember;

// "reason: message", without what is empty.
std::string WithMessage(const std::string& reason, const std::string& message) {
  if (reason.empty() || message.empty()) return reason + message;
  return fmt::format("{}: {}", reason, message);
}

// Null before the kubelet has reported on the container.
const Object& ContainerStatus(const Object& pod, const std::string& name) {
  static const Object none;
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    const Object& all = kube::ListMember(Member(pod, "status"), list);
    const auto found = std::ranges::find_if(
        all, [&](const Object& status) { return TextMember(status, "name") == name; });
    if (found != all.end()) return *found;
  }
  return none;
}

constexpr char kCrashLoop[] = "CrashLoopBackOff";

std::string WaitsFor(const Object& container_status) {
  return TextMember(Member(Member(container_status, "state"), "waiting"), "reason");
}

// Null if the container has not ended yet.
const Object& LatestEnd(const Object& container_status) {
  const Object& ended = Member(Member(container_status, "state"), "terminated");
  return ended.is_object() ? ended : Member(Member(container_status, "lastState"), "terminated");
}

const Object& MainStatus(const Object& pod) {
  return ContainerStatus(pod, controller::MainContainerName(pod));
}

std::string TextOfEnd(const Object& terminated) {
  const int exit_code = kube::IntMember(terminated, "exitCode");
  if (exit_code == 0) return "Completed";
  const std::string reason = TextMember(terminated, "reason");
  const std::string cause = reason.empty() || reason == "Error" ? "" : fmt::format("{}, ", reason);
  return fmt::format("Failed: {}exit code {}", cause, exit_code);
}

// An init container that has failed or cannot run keeps the main one from starting.
std::string StateOfInit(const Object& status) {
  for (const Object& init : kube::ListMember(status, "initContainerStatuses")) {
    const Object& state = Member(init, "state");
    const Object& waiting = Member(state, "waiting");
    const std::string name = TextMember(init, "name");
    if (Member(state, "terminated").is_object()) {
      if (kube::IntMember(Member(state, "terminated"), "exitCode") == 0) continue;
      return fmt::format("init container {}: {}", name, TextOfEnd(Member(state, "terminated")));
    }
    const std::string reason = TextMember(waiting, "reason");
    if (!reason.empty() && reason != "PodInitializing") {
      return fmt::format("init container {}: {}", name,
                         WithMessage(reason, TextMember(waiting, "message")));
    }
  }
  return "";
}

std::string StateOfPending(const Object& status) {
  const Object& scheduled = kube::ConditionOf(status, "PodScheduled");
  if (scheduled.is_object() && !kube::IsTrueCondition(scheduled)) {
    return WithMessage(TextMember(scheduled, "reason"), TextMember(scheduled, "message"));
  }
  return StateOfInit(status);
}

}  // namespace

std::string PodState(const Object& pod) {
  const Object& status = Member(pod, "status");
  const Object& main = MainStatus(pod);
  const Object& state = Member(main, "state");
  const std::string phase = TextMember(status, "phase");
  if (kube::IsBeingDeleted(pod)) return "Terminating";
  // A pod's own reason comes from whoever ended all of its containers.
  if (phase == "Failed" && !TextMember(status, "reason").empty()) {
    return fmt::format("Failed: {}",
                       WithMessage(TextMember(status, "reason"), TextMember(status, "message")));
  }
  if (Member(state, "terminated").is_object()) return TextOfEnd(Member(state, "terminated"));
  if (Member(state, "running").is_object()) {
    return Member(main, "ready") == false ? "Running, not ready" : "Running";
  }
  if (const std::string pending = StateOfPending(status); !pending.empty()) return pending;
  const Object& waiting = Member(state, "waiting");
  const std::string reason =
      WithMessage(TextMember(waiting, "reason"), TextMember(waiting, "message"));
  if (!reason.empty()) return reason;
  return phase.empty() ? "Pending" : phase;
}

std::string InitContainerToBlame(const Object& pod) {
  if (HasLog(pod, controller::MainContainerName(pod), false)) return "";
  for (const Object& init : kube::ListMember(Member(pod, "status"), "initContainerStatuses")) {
    if (kube::IntMember(LatestEnd(init), "exitCode") != 0 || WaitsFor(init) == kCrashLoop) {
      return TextMember(init, "name");
    }
  }
  return "";
}

std::string ContainerToBlame(const Object& pod) {
  std::string init = InitContainerToBlame(pod);
  return init.empty() ? controller::MainContainerName(pod) : init;
}

int RestartsOf(const Object& pod, const std::string& container) {
  return kube::IntMember(ContainerStatus(pod, container), "restartCount");
}

int KubeletRestarts(const Object& pod) {
  return RestartsOf(pod, ContainerToBlame(pod));
}

bool HasLog(const Object& pod, const std::string& container, bool previous) {
  const Object& status = ContainerStatus(pod, container);
  if (previous) return Member(Member(status, "lastState"), "terminated").is_object();
  const Object& state = Member(status, "state");
  return Member(state, "running").is_object() || Member(state, "terminated").is_object() ||
         Member(Member(status, "lastState"), "terminated").is_object();
}

bool IsRunning(const Object& pod, const std::string& container) {
  return Member(Member(ContainerStatus(pod, container), "state"), "running").is_object();
}

bool HasEnded(const Object& pod, const std::string& container) {
  return Member(Member(ContainerStatus(pod, container), "state"), "terminated").is_object();
}

bool IsInTrouble(const Object& pod) {
  const Object& blamed = ContainerStatus(pod, ContainerToBlame(pod));
  const Object& ended = Member(Member(blamed, "state"), "terminated");
  return TextMember(Member(pod, "status"), "phase") == "Failed" ||
         kube::IntMember(ended, "exitCode") != 0 || WaitsFor(blamed) == kCrashLoop;
}

}  // namespace lockstep::cli
