#include "tests/support/fake_kubelet.h"

#include <utility>

#include "tests/support/whole_object.h"

namespace lockstep::testing {
namespace {

using kube::Object;

// A server that leaves out a new pod's phase means Pending.
std::string PhaseOf(const Object& pod) {
  return pod.value("/status/phase"_json_pointer, "Pending");
}

Object ContainerStatus(const Object& pod, const Object& state, bool ready) {
  return {{"name", pod.at("/spec/containers/0/name"_json_pointer)},
          {"image", "x"},
          {"imageID", "x"},
          {"ready", ready},
          {"restartCount", 0},
          {"state", state}};
}

Object RunningStatus(const Object& pod) {
  Object status = {{"phase", "Running"}, {"podIP", "127.0.0.1"}};
  status["conditions"] = {{{"type", "Ready"}, {"status", "True"}}};
  status["containerStatuses"] = {
      ContainerStatus(pod, {{"running", {{"startedAt", "2026-01-01T00:00:00Z"}}}}, true)};
  return status;
}

Object EndedStatus(const Object& pod, const char* phase, int exit_code) {
  Object status = {{"phase", phase}, {"podIP", "127.0.0.1"}};
  status["conditions"] = {{{"type", "Ready"}, {"status", "False"}}};
  const Object end = {{"terminated",
                       {{"exitCode", exit_code},
                        {"reason", exit_code == 0 ? "Completed" : "Error"},
                        {"finishedAt", "2026-01-01T00:00:01Z"}}}};
  status["containerStatuses"] = {ContainerStatus(pod, end, false)};
  return status;
}

}  // namespace

FakeKubelet::FakeKubelet(kube::Client& client, std::string namespace_name, Script script,
                         Confirm confirm)
    : client_(client),
      script_(std::move(script)),
      confirm_(std::move(confirm)),
      pods_(client, kube::kPodKind, {.namespace_name = std::move(namespace_name)},
            kube::WholeObject) {
  pods_.SetHandler([this](const auto* /*before*/, const auto* pod) {
    if (pod != nullptr) See(pod->value);
  });
  pods_.Start();
}

FakeKubelet::~FakeKubelet() {
  pods_.Stop();
}

void FakeKubelet::FinishAll() {
  {
    const std::lock_guard lock(mutex_);
    finish_all_ = true;
  }
  for (const auto& pod : pods_.store().List()) {
    if (PhaseOf(pod->value) == "Running" && !pod->being_deleted) End(pod->value, Fate::kSucceeds);
  }
}

void FakeKubelet::See(const Object& pod) {
  if (kube::IsBeingDeleted(pod)) {
    if (confirm_) confirm_(kube::KeyOf(pod), kube::Uid(pod));
    return;
  }
  if (PhaseOf(pod) == "Pending") return SetStatus(pod, RunningStatus(pod));
  if (PhaseOf(pod) == "Running") Run(pod);
}

void FakeKubelet::Run(const Object& pod) {
  bool finish = false;
  {
    const std::lock_guard lock(mutex_);
    if (!asked_.insert(kube::Uid(pod)).second) return;
    finish = finish_all_;
  }
  const Fate fate = script_(pod);
  End(pod, fate == Fate::kRuns && finish ? Fate::kSucceeds : fate);
}

void FakeKubelet::End(const Object& pod, Fate fate) {
  switch (fate) {
    case Fate::kRuns:
      return;
    case Fate::kSucceeds:
      return SetStatus(pod, EndedStatus(pod, "Succeeded", 0));
    case Fate::kFails:
      return SetStatus(pod, EndedStatus(pod, "Failed", 1));
    case Fate::kRetryable:
      return SetStatus(pod, EndedStatus(pod, "Failed", 137));
    case Fate::kEvicted:
      return SetStatus(pod, {{"phase", "Failed"},
                             {"reason", "Evicted"},
                             {"conditions",
                              {{{"type", "DisruptionTarget"},
                                {"status", "True"},
                                {"reason", "TerminationByKubelet"}}}}});
  }
}

// Retries conflicts, as a kubelet does, until the status is written or the pod is another one.
void FakeKubelet::SetStatus(const Object& pod, const Object& status) {
  Object changed = pod;
  while (true) {
    changed["status"] = status;
    const auto written = client_.UpdateStatus(kube::kPodKind, changed);
    if (!absl::IsAborted(written.status())) return;
    auto current = client_.Get(kube::kPodKind, kube::KeyOf(pod));
    if (!current.ok() || kube::Uid(*current) != kube::Uid(pod)) return;
    changed = *std::move(current);
  }
}

}  // namespace lockstep::testing
