#include "operator/controller/pod_changes.h"

namespace lockstep::controller {
namespace {

using CachedPod = kube::Cached<std::optional<ObservedPod>>;

// Kubelets and network plug-ins write much that is not observed.
bool LooksTheSame(const CachedPod& before, const CachedPod& after) {
  return before.uid == after.uid && before.owner_uid == after.owner_uid &&
         before.owner_kind == after.owner_kind && before.being_deleted == after.being_deleted &&
         before.value == after.value;
}

}  // namespace

Urgency UrgencyOf(const CachedPod* before, const CachedPod* after) {
  if (after == nullptr || !after->value) return Urgency::kNow;
  if (before != nullptr && LooksTheSame(*before, *after)) return Urgency::kNone;
  const ObservedPod& pod = *after->value;
  const int restarts = before != nullptr && before->value ? before->value->restart_count : 0;
  const bool is_well = !PodFailed(pod) && !pod.being_deleted && !pod.disruption_target &&
                       pod.restart_count == restarts;
  return is_well ? Urgency::kSoon : Urgency::kNow;
}

}  // namespace lockstep::controller
