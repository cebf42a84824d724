#include "operator/controller/rules/parts/pod_group.h"

#include <algorithm>

#include "operator/controller/children/gang.h"

namespace lockstep::controller {
namespace {

// Compares only the members that we set, since a scheduler may add its own.
bool Agrees(const ObservedPodGroup& seen, const ObservedPodGroup& wanted) {
  return std::ranges::includes(seen, wanted);  // both are ordered
}

// Returns true if roles of the job wait for others, so that its group grows in steps.
bool HasStartOrder(const api::TrainingJob& job) {
  return std::ranges::any_of(job.spec.replica_specs,
                             [](const auto& entry) { return !entry.second.depends_on.empty(); });
}

}  // namespace

bool IsOutsideGang(const Observed& observed) {
  const GangScheduler scheduler = GangSchedulerOf(observed.settings);
  if (scheduler == GangScheduler::kNone) return false;
  const bool is_volcano = scheduler == GangScheduler::kVolcano;
  return std::ranges::any_of(observed.pods, [&](const ObservedPod& pod) {
    const bool is_peer = pod.attempt == observed.job.status.attempt &&
                         pod.role != api::Role::kEvaluator && !pod.is_gone;
    return is_peer && !(is_volcano ? pod.in_volcano_group : pod.in_plugins_group);
  });
}

bool AddPodGroup(const Observed& observed, Plan& plan) {
  if (GangSchedulerOf(observed.settings) == GangScheduler::kNone) return true;
  if (IsOutsideGang(observed)) return true;
  if (!observed.pod_group) {
    plan.actions.emplace_back(CreatePodGroup{});
    return false;
  }
  const kube::Object wanted = BuildPodGroup(observed.job, observed.settings);
  if (!Agrees(*observed.pod_group, ReadPodGroup(wanted))) {
    plan.actions.emplace_back(UpdatePodGroup{});
    // Pods that came before the group counts them would be placed one by one.
    return !HasStartOrder(observed.job);
  }
  return true;
}

void AddPodGroupDeletion(const Observed& observed, Plan& plan) {
  if (observed.pod_group) plan.actions.emplace_back(DeletePodGroup{});
}

}  // namespace lockstep::controller
