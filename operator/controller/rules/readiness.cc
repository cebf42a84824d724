#include "operator/controller/rules/readiness.h"

#include <algorithm>
#include <vector>

#include "api/v1/strategy_traits.h"
#include "operator/controller/rules/pod_failures.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

bool IsUp(const Observed& observed, const ObservedPod& pod) {
  if (pod.being_deleted || IsObsolete(observed, pod)) return false;
  return HasSucceeded(pod) || (IsActive(pod) && pod.ready);
}

}  // namespace

bool IsObsolete(const Observed& observed, const ObservedPod& pod) {
  return !IsMember(observed, pod) || IsCounted(observed, pod);
}

Readiness ReadinessOf(const Observed& observed) {
  const std::vector<Replica> wanted = WantedReplicas(observed.job);
  Readiness readiness{!wanted.empty(), !wanted.empty()};
  for (const Replica& replica : wanted) {
    const ObservedPod* pod = FindPod(observed, replica);
    if (pod != nullptr && IsUp(observed, *pod)) continue;
    readiness.all = false;
    if (IsRequired(observed.job, replica)) readiness.required = false;
  }
  if (!wanted.empty() && api::TraitsOf(observed.job.spec).trains_alone) {
    readiness.required = std::ranges::any_of(
        observed.pods, [&observed](const ObservedPod& pod) { return IsUp(observed, pod); });
  }
  return readiness;
}

}  // namespace lockstep::controller
