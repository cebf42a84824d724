#include "operator/controller/state/observed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "api/v1/names.h"
#include "api/v1/progress_json.h"
#include "api/v1/variants.h"
#include "base/rfc3339.h"
#include "base/shorten.h"
#include "operator/controller/state/main_container.h"
#include "operator/kube/cache/store.h"

namespace lockstep::controller {
namespace {

using kube::IntMember;
using kube::Member;
using kube::Object;
using kube::TextMember;

// Bytes. Anyone who can write a pod's status controls these texts, and tens of thousands of pods
// are held, so that together they must stay below a few KiB of each.
constexpr std::size_t kLongestReason = 512, kLongestImage = 512;
constexpr std::size_t kLongestMessage = 1'024;
constexpr std::size_t kLongestWords = 4'096;  // of the main container's end; as a kubelet allows
constexpr std::size_t kLongestNode = 253, kLongestIp = 64;  // longer ones are none
constexpr std::size_t kLongestName = 63;                    // of a container

// Seconds, 272 years: within the range of Time when it is taken from any deadline.
constexpr std::int64_t kLongestGrace = std::int64_t{1} << 33;

std::string ReasonOf(const Object& state) {
  return Shortened(TextMember(state, "reason"), kLongestReason);
}

std::string MessageOf(const Object& state, std::size_t longest = kLongestMessage) {
  return Shortened(TextMember(state, "message"), longest, " …");
}

std::string TextUpTo(std::size_t longest, const Object& object, const char* key) {
  std::string text = TextMember(object, key);
  return text.size() <= longest ? text : std::string();
}

std::optional<int> NumberLabel(const Object& pod, const char* key) {
  const std::string text = kube::Label(pod, key);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

PodPhase PhaseOf(const Object& status) {
  const std::string phase = TextMember(status, "phase");
  if (phase == "Running") return PodPhase::kRunning;
  if (phase == "Succeeded") return PodPhase::kSucceeded;
  if (phase == "Failed") return PodPhase::kFailed;
  if (phase == "Unknown") return PodPhase::kUnknown;
  return PodPhase::kPending;
}

// A termination is final only if the kubelet will not restart the container.
bool IsFinal(const std::string& restart_policy, int exit_code) {
  return restart_policy == "Never" || (restart_policy == "OnFailure" && exit_code == 0);
}

// A runtime that could not start the container gives the epoch, and the kubelet none for one that
// it did not get to.
std::optional<Time> StartTime(const Object& terminated) {
  const std::optional<Time> started = ParseRfc3339(TextMember(terminated, "startedAt"));
  return started && *started > Time{} ? started : std::nullopt;
}

// Returns true if people can read nothing more in the message than `progress` says. A program of
// the user's may report its step beside the error that it ended with.
bool IsOnlyProgress(const std::string& message, const api::Progress& progress) {
  const Object said = Object::parse(message, nullptr, /*allow_exceptions=*/false);
  const Object known = api::ProgressToJson(progress);
  return std::ranges::all_of(said.items(),
                             [&known](const auto& item) { return known.contains(item.key()); });
}

Termination ReadTermination(const Object& terminated) {
  Termination end{.exit_code = IntMember(terminated, "exitCode"),
                  .signal = IntMember(terminated, "signal"),
                  .reason = ReasonOf(terminated),
                  .message = MessageOf(terminated, kLongestWords),
                  .progress = std::nullopt,
                  .results = {},
                  .finished_at = ParseRfc3339(TextMember(terminated, "finishedAt")),
                  .started_at = StartTime(terminated)};
  end.progress = api::ProgressFromMessage(end.message);
  end.results = api::ResultsFromMessage(end.message);
  const bool is_for_people =
      end.progress ? !IsOnlyProgress(end.message, *end.progress) : end.results.empty();
  if (!is_for_people) end.message.clear();
  return end;
}

constexpr int kMostRestarts = 100'000;  // of a container; 10,000 pods of them fit an int

void ReadMainContainer(const std::string& name, const Object& status, ObservedPod& pod,
                       const std::string& restart_policy) {
  for (const Object& entry : kube::ListMember(status, "containerStatuses")) {
    if (TextMember(entry, "name") != name) continue;
    // A tenant may write its pods' status, and these counts are added up.
    pod.restart_count = std::clamp(IntMember(entry, "restartCount"), 0, kMostRestarts);
    const Object& state = Member(entry, "state");
    pod.waiting_reason = ReasonOf(Member(state, "waiting"));
    pod.waiting_message = MessageOf(Member(state, "waiting"));
    const Object& running = Member(state, "running");
    pod.running_since = ParseRfc3339(TextMember(running, "startedAt"));
    const Object& last = Member(Member(entry, "lastState"), "terminated");
    if (!last.is_null()) pod.last_end = ReadTermination(last);
    // The count grows when the next run begins, not when the last one ends.
    pod.last_run = running.is_null() ? pod.restart_count : pod.restart_count - 1;
    const Object& terminated = Member(state, "terminated");
    if (terminated.is_null()) continue;
    if (AllContainersEnded(pod) || IsFinal(restart_policy, IntMember(terminated, "exitCode"))) {
      pod.termination = ReadTermination(terminated);
      if (pod.last_end) pod.last_end->message = {};  // this end tells why the pod has failed
    } else {
      pod.last_end = ReadTermination(terminated);
    }
  }
}

constexpr char kCrashLoop[] = "CrashLoopBackOff";

// Returns the names of the init containers that are sidecars: the kubelet starts them again until
// the main container has ended.
std::set<std::string> Sidecars(const Object& spec) {
  std::set<std::string> names;
  for (const Object& container : kube::ListMember(spec, "initContainers")) {
    if (TextMember(container, "restartPolicy") == "Always") {
      names.insert(TextMember(container, "name"));
    }
  }
  return names;
}

// Returns how the container has ended last; null if it has not.
const Object& LatestEnd(const Object& entry) {
  const Object& terminated = Member(Member(entry, "state"), "terminated");
  return terminated.is_null() ? Member(Member(entry, "lastState"), "terminated") : terminated;
}

// Adds the container if it is a blocker, and the pod has none yet. `kind` is "init container" or
// another word for it; `may_fail` says whether the pod needs its success.
void NoteBlocker(const Object& entry, const char* kind, bool may_fail, ObservedPod& pod) {
  if (!pod.blockers.empty()) return;
  const Object& waiting = Member(Member(entry, "state"), "waiting");
  const int exit_code = may_fail ? IntMember(LatestEnd(entry), "exitCode") : 0;
  const std::string reason = ReasonOf(waiting);
  // How the container has ended says more than that the kubelet waits before the next try.
  const bool waits = IsStuck(reason) && (exit_code == 0 || reason != kCrashLoop);
  if (!waits && exit_code == 0) return;
  const Object& told = waits ? waiting : LatestEnd(entry);
  pod.blockers.push_back(
      {.container = fmt::format("{} {}", kind, TextUpTo(kLongestName, entry, "name")),
       .exit_code = waits ? 0 : exit_code,
       .reason = ReasonOf(told),
       .message = MessageOf(told)});
}

// Requires: ReadMainContainer has set restart_count.
void ReadOtherContainers(const std::string& main, const Object& object, ObservedPod& pod) {
  const Object& status = Member(object, "status");
  const std::set<std::string> sidecars = Sidecars(Member(object, "spec"));
  for (const Object& entry : kube::ListMember(status, "initContainerStatuses")) {
    const bool is_sidecar = sidecars.contains(TextMember(entry, "name"));
    NoteBlocker(entry, is_sidecar ? "sidecar" : "init container", !is_sidecar, pod);
    // One that has succeeded may have waited for something by failing, and says no more of the pod.
    if (is_sidecar || IntMember(LatestEnd(entry), "exitCode") == 0) continue;
    const int restarts = std::clamp(IntMember(entry, "restartCount"), 0, kMostRestarts);
    pod.restart_count = std::min(pod.restart_count + restarts, kMostRestarts);
  }
  for (const Object& entry : kube::ListMember(status, "containerStatuses")) {
    if (TextMember(entry, "name") != main) NoteBlocker(entry, "container", false, pod);
  }
}

void ReadConditions(const Object& status, ObservedPod& pod) {
  const Object& ready = kube::ConditionOf(status, "Ready");
  pod.ready = kube::IsTrueCondition(ready);
  const Object& disruption = kube::ConditionOf(status, "DisruptionTarget");
  pod.disruption_target = kube::IsTrueCondition(disruption);
  if (pod.disruption_target) pod.disruption_reason = ReasonOf(disruption);
  const Object& scheduled = kube::ConditionOf(status, "PodScheduled");
  if (TextMember(scheduled, "status") == "False" &&
      TextMember(scheduled, "reason") == "Unschedulable") {
    pod.unschedulable = MessageOf(scheduled);
  }
}

// By the spec: the condition PodScheduled keeps the reason SchedulingGated until the scheduler has
// looked at the pod, though the gates may be gone.
void ReadSchedulingGates(const Object& spec, ObservedPod& pod) {
  std::vector<std::string> names;
  for (const Object& gate : kube::ListMember(spec, "schedulingGates")) {
    names.push_back(TextMember(gate, "name"));
  }
  if (names.empty()) return;
  pod.waiting_reason = kSchedulingGated;
  pod.waiting_message = Shortened(fmt::format("{}", fmt::join(names, ", ")), kLongestReason);
}

void ReadMetadata(const Object& metadata, ObservedPod& pod) {
  const Object& annotations = Member(metadata, "annotations");
  pod.cluster_shape =
      Shortened(TextMember(annotations, api::kAnnotationClusterShape), kLongestReason);
  pod.elastic_peers =
      Shortened(TextMember(annotations, api::kAnnotationElasticPeers), kLongestReason);
  pod.elastic_bounds =
      Shortened(TextMember(annotations, api::kAnnotationElasticBounds), kLongestReason);
  pod.spec_hash = Shortened(TextMember(annotations, api::kAnnotationSpecHash), kLongestReason);
  pod.starts_again = TextMember(annotations, api::kAnnotationRestartPolicy) == "Always";
  pod.has_token = annotations.contains(api::kAnnotationTokenSecret);
  pod.report_channel =
      Shortened(TextMember(annotations, api::kAnnotationReportChannel), kLongestReason);
  pod.has_network_policy = annotations.contains(api::kAnnotationNetworkPolicy);
  pod.in_volcano_group = annotations.contains(kVolcanoGroup);
  pod.in_plugins_group = Member(metadata, "labels").contains(kPluginsGroup);
  if (const auto deadline = ParseRfc3339(TextMember(metadata, "deletionTimestamp"))) {
    const std::int64_t grace = kube::Int64Member(metadata, "deletionGracePeriodSeconds");
    pod.deletion = {*deadline, std::clamp<std::int64_t>(grace, 0, kLongestGrace)};
  }
}

void ReadImage(const Object& object, const std::string& main_container, ObservedPod& pod) {
  const Object& annotations = Member(Member(object, "metadata"), "annotations");
  pod.image_is_noted = annotations.contains(api::kAnnotationTrainerImage);
  std::string image = TextMember(annotations, api::kAnnotationTrainerImage);
  if (!pod.image_is_noted) {
    for (const Object& container : kube::ListMember(Member(object, "spec"), "containers")) {
      if (TextMember(container, "name") == main_container) image = TextMember(container, "image");
    }
  }
  // Earlier operators had one image, which served pods with GPUs too.
  std::string gpu_image = annotations.contains(api::kAnnotationTrainerGpuImage)
                              ? TextMember(annotations, api::kAnnotationTrainerGpuImage)
                              : image;
  if (std::max(image.size(), gpu_image.size()) > kLongestImage) return;
  pod.trainer_images = {std::move(image), std::move(gpu_image)};
}

}  // namespace

std::optional<ObservedPod> ObservePod(const Object& object) {
  const auto role = api::RoleFromName(kube::Label(object, api::kLabelRole));
  const auto index = NumberLabel(object, api::kLabelReplicaIndex);
  const auto attempt = NumberLabel(object, api::kLabelAttempt);
  if (!role || !index || !attempt) return std::nullopt;
  const Object& spec = Member(object, "spec");
  const Object& status = Member(object, "status");
  ObservedPod pod{.name = kube::Name(object),
                  .uid = kube::Uid(object),
                  .role = *role,
                  .index = *index,
                  .attempt = *attempt,
                  .phase = PhaseOf(status),
                  .node = TextUpTo(kLongestNode, spec, "nodeName"),
                  .ip = TextUpTo(kLongestIp, status, "podIP"),
                  .reason = ReasonOf(status),
                  .message = MessageOf(status),
                  .being_deleted = kube::IsBeingDeleted(object)};
  ReadMetadata(Member(object, "metadata"), pod);
  const std::string main_container = MainContainerName(object);
  ReadImage(object, main_container, pod);
  ReadConditions(status, pod);
  const std::string policy = TextMember(spec, "restartPolicy");
  ReadMainContainer(main_container, status, pod, policy.empty() ? "Always" : policy);
  ReadOtherContainers(main_container, object, pod);
  ReadSchedulingGates(spec, pod);
  return pod;
}

kube::FieldMask PodFields() {
  kube::FieldMask fields = kube::IdentityFields();
  for (const char* path :
       {"metadata.annotations", "metadata.deletionGracePeriodSeconds", "metadata.labels",
        "spec.containers.image", "spec.containers.name", "spec.initContainers.name",
        "spec.initContainers.restartPolicy", "spec.nodeName", "spec.restartPolicy",
        "spec.schedulingGates.name", "status.conditions.type", "status.conditions.status",
        "status.conditions.reason", "status.conditions.message", "status.message", "status.phase",
        "status.podIP", "status.reason"}) {
    fields.Add(path);
  }
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const char* member : {"name", "restartCount", "state", "lastState"}) {
      fields.Add(fmt::format("status.{}.{}", list, member));
    }
  }
  return fields;
}

bool PodSucceeded(const ObservedPod& pod) {
  return !pod.starts_again && ProgramSucceeded(pod);
}

bool ProgramSucceeded(const ObservedPod& pod) {
  if (WasEndedByNode(pod) && !pod.succeeded_since) return false;
  if (pod.termination) return pod.termination->exit_code == 0;
  return pod.phase == PodPhase::kSucceeded;
}

bool PodFailed(const ObservedPod& pod) {
  return !IsActive(pod) && !PodSucceeded(pod);
}

bool IsStuck(std::string_view reason) {
  return reason.ends_with("BackOff") || reason.starts_with("Err") || reason.starts_with("Create") ||
         reason.starts_with("InvalidImage") || reason == "RunContainerError";
}

bool IsActive(const ObservedPod& pod) {
  return !pod.termination && !AllContainersEnded(pod);
}

bool AllContainersEnded(const ObservedPod& pod) {
  return pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed;
}

bool MayHaveStarted(const ObservedPod& pod) {
  return pod.phase == PodPhase::kRunning || pod.phase == PodPhase::kSucceeded ||
         pod.running_since || (pod.termination && pod.termination->started_at) || pod.last_end;
}

bool WasEndedByNode(const ObservedPod& pod) {
  return pod.phase == PodPhase::kFailed && !pod.reason.empty();
}

}  // namespace lockstep::controller
