#include "operator/controller/seen_failures.h"

#include <algorithm>
#include <set>
#include <utility>

#include "operator/controller/rules/pod_failures.h"
#include "operator/controller/rules/readiness.h"

namespace lockstep::controller {
namespace {

// As a pod is remembered: no rule waits for the end of its deletion, or forces it.
ObservedPod AsGone(ObservedPod pod) {
  if (pod.deletion) pod.deletion = Deletion{pod.deletion->RequestedAt(), 0};
  return pod;
}

}  // namespace

void SeenFailures::Note(Observed& observed) {
  std::set<std::string> present;
  for (const ObservedPod& pod : observed.pods) {
    present.insert(pod.uid);
    if (pod.role == api::Role::kEvaluator) continue;
    if (HasFailed(pod)) {
      failed_[pod.uid] = AsGone(pod);
    } else {
      failed_.erase(pod.uid);
    }
  }
  std::erase_if(failed_,
                [&observed](const auto& entry) { return IsObsolete(observed, entry.second); });
  for (const auto& [uid, pod] : failed_) {
    if (present.contains(uid)) continue;
    observed.pods.insert(std::ranges::upper_bound(observed.pods, PlaceOf(pod), {}, PlaceOf), pod);
  }
}

}  // namespace lockstep::controller
