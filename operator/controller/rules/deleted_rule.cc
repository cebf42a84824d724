#include "operator/controller/rules/deleted_rule.h"

#include <algorithm>

#include "operator/controller/rules/parts/lost_pods.h"
#include "operator/controller/rules/parts/pod_group.h"
#include "operator/controller/state/job_facts.h"

namespace lockstep::controller {

std::optional<Plan> PlanDeleted(const Observed& observed) {
  if (!IsBeingDeleted(observed.job)) return std::nullopt;
  Plan plan;
  plan.status = observed.job.status;
  if (observed.keeps_children) return plan;
  for (const ObservedPod& pod : observed.pods) {
    if (pod.being_deleted || AllContainersEnded(pod)) continue;
    plan.actions.emplace_back(DeletePod{pod.name, pod.uid});
  }
  AddForcedDeletes(observed, plan);
  AddPodGroupDeletion(observed, plan);
  if (observed.workload && std::ranges::all_of(observed.pods, AllContainersEnded)) {
    plan.actions.emplace_back(DeleteWorkload{});
  }
  return plan;
}

}  // namespace lockstep::controller
