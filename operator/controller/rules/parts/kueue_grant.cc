#include "operator/controller/rules/parts/kueue_grant.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/parts/attempt.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

bool HasGrant(const ObservedWorkload& workload) {
  return workload.admitted && !workload.evicted && !workload.finished;
}

bool HasGivenBackTooMuch(const ObservedWorkload& workload, const api::TrainingJob& job) {
  const auto grant = workload.granted.find(api::Role::kWorker);
  if (workload.reclaimable_workers == 0 || grant == workload.granted.end()) return false;
  const int needed = ReplicaCount(job, api::Role::kWorker) - CompletedWorkers(job, job.status);
  return needed > grant->second.count - workload.reclaimable_workers;
}

std::map<api::Role, int> GrantedCounts(const api::TrainingJob& job,
                                       const ObservedWorkload& workload) {
  std::map<api::Role, int> counts;
  if (!job.spec.elastic) return counts;
  const auto grant = workload.granted.find(api::Role::kWorker);
  if (grant == workload.granted.end()) return counts;
  if (grant->second.count < ReplicaCount(job, api::Role::kWorker)) {
    counts[api::Role::kWorker] = grant->second.count;
  }
  return counts;
}

bool IsEnough(const ObservedWorkload& workload, const api::TrainingJob& job) {
  return std::ranges::all_of(job.spec.replica_specs, [&](const auto& entry) {
    const auto& [role, spec] = entry;
    const auto grant = workload.granted.find(role);
    const int granted = grant == workload.granted.end() ? 0 : grant->second.count;
    const bool may_shrink = job.spec.elastic && role == api::Role::kWorker && granted > 0;
    return granted >=
           (may_shrink ? std::min(job.spec.elastic->min_replicas, spec.replicas) : spec.replicas);
  });
}

bool RunsOnItsGrant(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  const auto& workload = observed.workload;
  if (!workload || !HasGrant(*workload)) return false;
  const auto asked = workload->counts.find(api::Role::kWorker);
  return asked != workload->counts.end() &&
         asked->second == ReplicaCount(job, api::Role::kWorker) && IsEnough(*workload, job) &&
         !HasGivenBackTooMuch(*workload, job) && !IsForOtherPods(*workload, job, observed.settings);
}

bool IsUntouched(const std::optional<ObservedWorkload>& workload) {
  return workload && !workload->reserved && !workload->admitted && !workload->evicted;
}

bool LacksQuota(const Observed& observed) {
  const bool is_queued = IsQueued(observed.job, observed.settings);
  if (!observed.workload) return is_queued;
  if (!is_queued && IsUntouched(observed.workload)) return false;
  return !HasGrant(*observed.workload);
}

std::optional<WorkerGrant> WorkerGrantOf(const Observed& observed) {
  const auto& workload = observed.workload;
  if (!workload || !(workload->admitted || workload->evicted)) return std::nullopt;
  const auto asked = workload->counts.find(api::Role::kWorker);
  const auto granted = workload->granted.find(api::Role::kWorker);
  if (asked == workload->counts.end() || granted == workload->granted.end()) return std::nullopt;
  return WorkerGrant{asked->second, granted->second.count};
}

void KeepGrantedWorkers(Observed& observed) {
  if (observed.invalid || observed.job.spec.suspend || !RunsOnItsGrant(observed)) return;
  const std::map<api::Role, int> counts = GrantedCounts(observed.job, *observed.workload);
  const auto granted = counts.find(api::Role::kWorker);
  if (granted == counts.end()) return;
  int& workers = observed.job.spec.replica_specs[api::Role::kWorker].replicas;
  observed.kept_size = fmt::format(
      "the job goes on with {} of {} workers, as many as Kueue has granted; the API server does "
      "not let the operator write that number to the job",
      granted->second, workers);
  workers = granted->second;
  observed.unwritten_workers = workers;
}

void AddGrantedWorkers(const Observed& observed, Plan& plan) {
  if (!observed.unwritten_workers) return;
  plan.actions.emplace_back(SetSuspend{false, {{api::Role::kWorker, *observed.unwritten_workers}}});
}

}  // namespace lockstep::controller
