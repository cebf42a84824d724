#include "operator/controller/memory/seen_failures.h"

#include <algorithm>
#include <utility>

#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/readiness.h"

namespace lockstep::controller {
namespace {

// As a pod is remembered: no rule waits for the end of its deletion, or forces it.
ObservedPod AsGone(ObservedPod pod) {
  if (pod.deletion) pod.deletion = Deletion{pod.deletion->RequestedAt(), 0};
  return pod;
}

}  // namespace

void SeenFailures::AddGone(Observed& observed) {
  std::erase_if(lost_,
                [&observed](const auto& entry) { return IsObsolete(observed, entry.second); });
  for (const auto& [place, lost] : lost_) {
    const auto there = std::ranges::equal_range(observed.pods, place, {}, PlaceOf);
    const auto same = std::ranges::find(there, lost.uid, &ObservedPod::uid);
    if (same == there.end()) observed.pods.insert(there.end(), lost);
  }
}

void SeenFailures::RecordGone(const std::string& uid, const Place& place) {
  const auto [role, index, attempt] = place;
  ObservedPod pod;
  pod.uid = uid;
  pod.role = role;
  pod.index = index;
  pod.attempt = attempt;
  pod.phase = PodPhase::kRunning;
  pod.being_deleted = true;
  pod.is_gone = true;
  lost_.insert_or_assign(place, pod);
}

void SeenFailures::Record(const Observed& observed) {
  for (const ObservedPod& pod : observed.pods) {
    if (pod.is_gone) continue;
    const bool counts_here = pod.role != api::Role::kEvaluator && !IsObsolete(observed, pod);
    const Place place = PlaceOf(pod);
    if (counts_here && PodFailed(pod)) {
      lost_[place] = AsGone(pod);
    } else if (const auto known = lost_.find(place);
               known != lost_.end() && known->second.uid == pod.uid) {
      lost_.erase(known);
    }
  }
}

}  // namespace lockstep::controller
