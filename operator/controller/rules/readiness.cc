#include "operator/controller/rules/readiness.h"

#include <vector>

#include "operator/controller/rules/pod_failures.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

bool IsUp(const Observed& observed, const Replica& replica) {
  const ObservedPod* pod = FindPod(observed, replica);
  if (pod == nullptr || pod->being_deleted || IsObsolete(observed, *pod)) return false;
  return HasSucceeded(*pod) || (IsActive(*pod) && pod->ready);
}

}  // namespace

bool IsObsolete(const Observed& observed, const ObservedPod& pod) {
  return !IsMember(observed, pod) || IsCounted(observed, pod);
}

Readiness ReadinessOf(const Observed& observed) {
  const std::vector<Replica> wanted = WantedReplicas(observed.job);
  Readiness readiness{!wanted.empty(), !wanted.empty()};
  for (const Replica& replica : wanted) {
    if (IsUp(observed, replica)) continue;
    readiness.all = false;
    if (IsRequired(observed.job, replica)) readiness.required = false;
  }
  return readiness;
}

}  // namespace lockstep::controller
