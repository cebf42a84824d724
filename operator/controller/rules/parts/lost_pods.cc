#include "operator/controller/rules/parts/lost_pods.h"

#include <algorithm>

#include "api/v1/defaults.h"
#include "operator/controller/state/replicas.h"
#include "operator/controller/state/times.h"

namespace lockstep::controller {
namespace {

// How often a job with a pod on a silent node is reconciled, so that a report of the training group
// that it has lost that replica is acted on soon.
constexpr Duration kSilentNodeInterval = std::chrono::seconds(2);

// How often a job with a pod on a node of unknown state is reconciled: if the node turns out to be
// as it was, no change of it brings the job back.
constexpr Duration kUnknownNodeInterval = std::chrono::seconds(10);

bool IsMissed(const Observed& observed, const ObservedPod& pod) {
  if (!IsMember(observed, pod)) return false;
  const Replica replica{pod.role, pod.index};
  if (observed.group.leader_is_silent && replica == LeadingReplica(observed.job)) return true;
  return std::ranges::find(observed.group.missing, Describe(replica)) !=
         observed.group.missing.end();
}

void RequeueForSilentNode(const Observed& observed, const ObservedPod& pod, Plan& plan) {
  if (pod.node_is_unknown) RequeueWithin(plan, kUnknownNodeInterval);
  if (!pod.node_silent_since || IsUnreachable(observed, pod)) return;
  RequeueWithin(plan, *pod.node_silent_since + observed.settings.node_lost_after - observed.now);
  if (api::HasTrainingGroup(observed.job)) RequeueWithin(plan, kSilentNodeInterval);
}

}  // namespace

bool IsUnreachable(const Observed& observed, const ObservedPod& pod) {
  if (!pod.node_silent_since) return false;
  return IsMissed(observed, pod) ||
         observed.now - *pod.node_silent_since >= observed.settings.node_lost_after;
}

void AddForcedDeletes(const Observed& observed, Plan& plan) {
  for (const ObservedPod& pod : observed.pods) {
    RequeueForSilentNode(observed, pod, plan);
    // A grace of 0 means that deletion was forced already; only a finalizer can hold the pod now.
    if (!pod.deletion || pod.deletion->grace_seconds == 0) continue;
    // No kubelet confirms the end of a pod on a silent node, so it gets only its grace period.
    const Duration extra =
        pod.node_silent_since ? Duration::zero() : observed.settings.stuck_deletion;
    const Time since = pod.deleting_since.value_or(observed.now);
    const Duration left = SecondsAfter(since, pod.deletion->grace_seconds) + extra - observed.now;
    if (left > Duration::zero() && !IsUnreachable(observed, pod)) {
      RequeueWithin(plan, left);
    } else {
      plan.actions.emplace_back(DeletePod{pod.name, pod.uid, /*force=*/true});
    }
  }
}

}  // namespace lockstep::controller
