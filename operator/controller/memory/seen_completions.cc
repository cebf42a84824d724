#include "operator/controller/memory/seen_completions.h"

#include <algorithm>
#include <set>

#include "operator/controller/rules/parts/completions.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// The counts are those of the last status, when the worker was active and most likely ready.
// Without this, its pod would look like one that has vanished.
void CountAsSucceeded(api::TrainingJobStatus& status) {
  const auto counts = status.replica_statuses.find(api::Role::kWorker);
  if (counts == status.replica_statuses.end() || counts->second.active == 0) return;
  --counts->second.active;
  if (counts->second.ready > 0) --counts->second.ready;
  ++counts->second.succeeded;
}

}  // namespace

void SeenCompletions::Annotate(Observed& observed, SteadyTime now) {
  api::TrainingJobStatus& status = observed.job.status;
  if (attempt_ != status.attempt) seen_.clear();
  attempt_ = status.attempt;
  // Nobody waits for one that trains alone, and there may be thousands.
  const bool is_shared = IsSharedWork(observed.job);
  std::set<Replica> staying;
  for (const ObservedPod& pod : observed.pods) {
    if (!ShowsCompletion(observed, pod)) continue;
    const Replica replica{pod.role, pod.index};
    seen_.emplace(replica, now);
    if (!pod.being_deleted) staying.insert(replica);
  }
  for (const auto& [replica, since] : seen_) {
    if (staying.contains(replica)) continue;
    const bool is_worker = replica.role == api::Role::kWorker;
    if (is_shared && is_worker) {
      observed.completed_since[replica.index] = observed.now - (now - since);
    }
    if (ReplicaCompleted(observed.job, replica)) continue;
    AddCompleted(replica, status);
    if (is_worker) CountAsSucceeded(status);
  }
}

}  // namespace lockstep::controller
