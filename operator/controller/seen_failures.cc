#include "operator/controller/seen_failures.h"

#include <algorithm>
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

void SeenFailures::AddGone(Observed& observed) {
  std::erase_if(failed_,
                [&observed](const auto& entry) { return IsObsolete(observed, entry.second); });
  for (const auto& [place, failed] : failed_) {
    const auto there = std::ranges::equal_range(observed.pods, place, {}, PlaceOf);
    const auto same = std::ranges::find(there, failed.uid, &ObservedPod::uid);
    if (same == there.end()) observed.pods.insert(there.end(), failed);
  }
}

void SeenFailures::Note(const Observed& observed) {
  for (const ObservedPod& pod : observed.pods) {
    const bool counts_here = pod.role != api::Role::kEvaluator && !IsObsolete(observed, pod);
    const Place place = PlaceOf(pod);
    if (counts_here && HasFailed(pod)) {
      failed_[place] = AsGone(pod);
    } else if (const auto known = failed_.find(place);
               known != failed_.end() && known->second.uid == pod.uid) {
      failed_.erase(known);
    }
  }
}

}  // namespace lockstep::controller
