#include "operator/controller/rules/group_size.h"

#include <algorithm>

#include "api/v1/strategy_traits.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/attempt.h"
#include "operator/controller/rules/readiness.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// Returns null unless it runs.
const ObservedPod* RunningLeader(const Observed& observed) {
  const ObservedPod* leader = FindPod(observed, LeadingReplica(observed.job));
  if (leader == nullptr || leader->phase != PodPhase::kRunning) return nullptr;
  return IsActive(*leader) && !IsObsolete(observed, *leader) ? leader : nullptr;
}

bool HasTakenTooLong(const Observed& observed) {
  return observed.resizing_since && observed.now - *observed.resizing_since >= kFollowsWithin;
}

}  // namespace

bool ResizesInPlace(const Observed& observed) {
  const api::TrainingJobSpec& spec = observed.job.spec;
  if (!observed.tells_workers || !spec.training || !spec.elastic) return false;
  if (spec.restart_scope != api::RestartScope::kInPlace) return false;
  if (!api::TraitsOf(spec).uses_collectives || spec.training->checkpoint.directory.empty()) {
    return false;
  }
  const Settings& settings = observed.settings;
  if (observed.workload || IsQueued(observed.job, settings)) return false;
  if (observed.pod_group || !settings.gang_scheduler_name.empty()) return false;
  return observed.group.resizes.value_or(RunningLeader(observed) != nullptr);
}

std::optional<int> GroupWorkers(const Observed& observed) {
  if (!ResizesInPlace(observed)) return std::nullopt;
  const ObservedPod* leader = RunningLeader(observed);
  if (leader == nullptr) return std::nullopt;
  if (observed.group.workers) return observed.group.workers;
  return WorkersOfShape(observed.job, leader->cluster_shape);
}

bool IsResizing(const Observed& observed) {
  const std::optional<int> workers = GroupWorkers(observed);
  return workers && *workers != ReplicaCount(observed.job, api::Role::kWorker);
}

bool MustAskFirst(const Observed& observed) {
  return !observed.group.resizes && IsResizing(observed);
}

int WorkersToTell(const Observed& observed) {
  const std::optional<int> workers = GroupWorkers(observed);
  if (!workers) return 0;
  const int wanted = ReplicaCount(observed.job, api::Role::kWorker);
  for (int index = *workers; index < wanted; ++index) {
    const ObservedPod* pod = FindPod(observed, {api::Role::kWorker, index});
    const bool runs = pod != nullptr && pod->phase == PodPhase::kRunning && IsActive(*pod) &&
                      !pod->being_deleted && !IsObsolete(observed, *pod);
    if (!runs) return 0;
  }
  return wanted;
}

bool IsStillOfGroup(const Observed& observed, const ObservedPod& pod) {
  if (pod.role != api::Role::kWorker || IsMember(observed, pod)) return false;
  if (pod.attempt != observed.job.status.attempt) return false;
  return pod.index < GroupWorkers(observed).value_or(0);
}

bool FollowsInPlace(const Observed& observed, const ObservedPod& pod) {
  return ResizesInPlace(observed) && !HasTakenTooLong(observed) &&
         WorkersOfShape(observed.job, pod.cluster_shape).has_value();
}

}  // namespace lockstep::controller
