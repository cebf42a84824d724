#include "operator/controller/lost_pod_rule.h"

#include "operator/controller/status.h"

namespace lockstep::controller {

bool IsUnreachable(const Observed& observed, const ObservedPod& pod) {
  return pod.unreachable_since &&
         observed.now - *pod.unreachable_since >= observed.settings.node_lost_after;
}

void PlanForcedDeletes(const Observed& observed, Plan& plan) {
  for (const ObservedPod& pod : observed.pods) {
    if (pod.unreachable_since && !IsUnreachable(observed, pod)) {
      RequeueWithin(plan,
                    *pod.unreachable_since + observed.settings.node_lost_after - observed.now);
    }
    // A grace of 0 means that it was forced already: what holds it now is a finalizer.
    if (!pod.deletion || pod.deletion->grace_seconds == 0) continue;
    const Duration left = pod.deletion->deadline + observed.settings.stuck_deletion - observed.now;
    if (left > Duration::zero()) {
      RequeueWithin(plan, left);
    } else {
      plan.actions.emplace_back(DeletePod{pod.name, pod.uid, /*force=*/true});
    }
  }
}

}  // namespace lockstep::controller
