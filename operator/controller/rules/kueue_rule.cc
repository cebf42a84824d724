#include "operator/controller/rules/kueue_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

Plan Do(const Observed& observed, Action action) {
  Plan plan;
  plan.status = observed.job.status;
  plan.actions.push_back(std::move(action));
  AddActionFault(observed, IsTrue(plan.status, kSuspended) ? kSuspended : kRunning, plan);
  return plan;
}

bool HasGrant(const ObservedWorkload& workload) {
  return workload.admitted && !workload.evicted && !workload.finished;
}

// Returns true if an HPA or an edit asks for more than was granted, or for other pods. A grant
// covers only what was requested, no matter who sets spec.suspend to false.
bool HasOutgrown(const Observed& observed, const ObservedWorkload& workload) {
  const api::TrainingJob& job = observed.job;
  if (IsForOtherPods(workload, job, observed.settings)) return true;
  for (const auto& [role, spec] : job.spec.replica_specs) {
    if (spec.replicas > 0 && !workload.granted.contains(role)) return true;
  }
  for (const auto& [role, grant] : workload.granted) {
    if (ReplicaCount(job, role) > grant.count) return true;
  }
  return false;
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

// After an eviction the job asks again for the workers that a smaller grant had taken away.
std::map<api::Role, int> AskedCounts(const api::TrainingJob& job,
                                     const ObservedWorkload& workload) {
  std::map<api::Role, int> counts;
  const auto asked = workload.counts.find(api::Role::kWorker);
  if (!job.spec.elastic || asked == workload.counts.end()) return counts;
  if (asked->second > ReplicaCount(job, api::Role::kWorker)) {
    counts[api::Role::kWorker] = asked->second;
  }
  return counts;
}

std::optional<Plan> PlanWhileRunning(const Observed& observed) {
  const auto& workload = observed.workload;
  if (!workload) return Do(observed, SetSuspend{true, {}});
  if (!HasGrant(*workload)) {
    const std::string why = workload->eviction.empty() ? "it has no admission" : workload->eviction;
    return Do(observed, SetSuspend{true, AskedCounts(observed.job, *workload),
                                   fmt::format("Kueue stops the job: {}", why)});
  }
  if (HasOutgrown(observed, *workload)) return Do(observed, SetSuspend{true, {}});
  return std::nullopt;
}

// Reports a rejected create (e.g. a priority class that does not exist) in the condition that
// people look at.
Plan NewWorkloadPlan(const Observed& observed) {
  Plan plan = Do(observed, CreateWorkload{});
  const api::Condition* said = FindCondition(observed.job.status, kSuspended);
  if (!observed.create_fault || said->message == observed.create_fault->message) return plan;
  const std::string& why = observed.create_fault->message;
  SetCondition(observed, plan.status, kSuspended, true, "CreateFailed", why);
  plan.events.push_back({PlannedEvent::Type::kWarning, "CreateFailed", why});
  return plan;
}

bool HasOtherCounts(const ObservedWorkload& workload, const api::TrainingJob& job) {
  std::map<api::Role, int> counts;
  for (const auto& [role, spec] : job.spec.replica_specs) {
    if (spec.replicas > 0) counts[role] = spec.replicas;
  }
  return workload.counts != counts;
}

// Kueue reads pod sets, queue and priority from the Workload, so an edit of any of them needs a new
// one. Nothing else may ask for one: a new Workload waits behind all others.
bool IsMadeFrom(const ObservedWorkload& workload, const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  const auto priority = PriorityOf(job);
  return !HasOtherCounts(workload, job) && !IsForOtherPods(workload, job, observed.settings) &&
         workload.queue == QueueName(job) &&
         workload.priority_class == (priority ? priority->name : "");
}

std::optional<Plan> PlanWhileSuspended(const Observed& observed) {
  // Wait until PlanSuspended has set the condition and the pods are gone.
  if (!IsTrue(observed.job.status, kSuspended) || !observed.pods.empty()) return std::nullopt;
  const auto& workload = observed.workload;
  if (!workload) return NewWorkloadPlan(observed);
  if (!IsMadeFrom(*workload, observed) || workload->finished) {
    return Do(observed, DeleteWorkload{});
  }
  if (workload->evicted && workload->reserved) return Do(observed, ReleaseWorkload{});
  if (!HasGrant(*workload)) return std::nullopt;
  return Do(observed,
            SetSuspend{false, GrantedCounts(observed.job, *workload),
                       fmt::format("queue {} has admitted the job", QueueName(observed.job))});
}

// A job that cannot start holds no quota. It queues again once its spec is usable.
std::optional<Plan> PlanWhileHeld(const Observed& observed) {
  const bool is_over = IsTrue(observed.job.status, kSuspended) && observed.pods.empty();
  if (!observed.workload || !is_over) return std::nullopt;
  return Do(observed, DeleteWorkload{});
}

}  // namespace

bool IsStoppedByKueue(const Observed& observed) {
  if (!observed.invalid) return false;
  const auto& workload = observed.workload;
  if (!workload) return IsQueued(observed.job, observed.settings);
  return !HasGrant(*workload) || IsTrue(observed.job.status, kSuspended);
}

std::optional<Plan> PlanQueued(const Observed& observed) {
  if (observed.invalid) return PlanWhileHeld(observed);
  if (!IsQueued(observed.job, observed.settings)) return std::nullopt;
  return observed.job.spec.suspend ? PlanWhileSuspended(observed) : PlanWhileRunning(observed);
}

void AddWorkloadConditions(const Observed& observed, Plan& plan) {
  const auto& workload = observed.workload;
  if (!workload || workload->finished) return;
  const api::TrainingJobStatus& status = observed.job.status;
  for (const char* end : {kSucceeded, kFailed}) {
    if (!IsTrue(status, end)) continue;
    if (!std::ranges::all_of(observed.pods, HasEnded)) return;
    const api::Condition* condition = FindCondition(status, end);
    plan.actions.emplace_back(SetWorkloadCondition{"Finished", true, end, condition->message});
    return;
  }
  const bool ready = IsTrue(status, kRunning);
  if (!HasGrant(*workload) || workload->pods_ready == ready) return;
  plan.actions.emplace_back(SetWorkloadCondition{
      "PodsReady", ready, ready ? "PodsReady" : "PodsNotReady",
      ready ? "all required replicas are ready" : "not all required replicas are ready"});
}

}  // namespace lockstep::controller
