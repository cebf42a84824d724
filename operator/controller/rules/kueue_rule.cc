#include "operator/controller/rules/kueue_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/parts/kueue_grant.h"
#include "operator/controller/rules/parts/status.h"
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
  return HasGivenBackTooMuch(workload, job);
}

// Returns true if somebody has scaled the job since it was admitted.
bool WasScaled(const api::TrainingJob& job, const ObservedWorkload& workload) {
  const auto granted = workload.granted.find(api::Role::kWorker);
  return granted != workload.granted.end() &&
         granted->second.count != ReplicaCount(job, api::Role::kWorker);
}

// Returns true if the number of workers seems to come from a grant. A user may have chosen the same
// number.
bool HasGrantedNumber(const api::TrainingJob& job, const ObservedWorkload& workload) {
  if (workload.granted.contains(api::Role::kWorker) && (workload.admitted || workload.evicted)) {
    return !WasScaled(job, workload);
  }
  // The admission has just been withdrawn, or the Workload was released before the API server
  // accepted the job's suspension. If the job has been edited since, the number comes from the
  // edit.
  const bool is_edited = job.status.observed_generation != job.metadata.generation;
  const bool may_have_run = workload.reserved || workload.evicted;
  return may_have_run && !is_edited && !WasScaled(job, workload);
}

// A job that stops asks again for the workers that a smaller grant had taken away. Its maximum may
// have been lowered since; the server refuses a count above it.
std::map<api::Role, int> AskedCounts(const api::TrainingJob& job,
                                     const ObservedWorkload& workload) {
  std::map<api::Role, int> counts;
  const auto asked = workload.counts.find(api::Role::kWorker);
  if (!job.spec.elastic || asked == workload.counts.end()) return counts;
  const int wanted = std::min(asked->second, job.spec.elastic->max_replicas);
  if (wanted > ReplicaCount(job, api::Role::kWorker) && HasGrantedNumber(job, workload)) {
    counts[api::Role::kWorker] = wanted;
  }
  return counts;
}

// The same for a job whose Workload has been deleted, so that only this process knows it.
std::map<api::Role, int> LostCounts(const Observed& observed) {
  std::map<api::Role, int> counts;
  const api::TrainingJob& job = observed.job;
  const std::optional<WorkerGrant>& lost = observed.lost_grant;
  if (!lost || !job.spec.elastic) return counts;
  const int workers = ReplicaCount(job, api::Role::kWorker);
  const int wanted = std::min(lost->asked, job.spec.elastic->max_replicas);
  if (workers == lost->granted && wanted > workers) counts[api::Role::kWorker] = wanted;
  return counts;
}

// Returns the suspension by which a job that Kueue manages stops; nullopt if it may run. Requires:
// spec.suspend is false.
std::optional<SetSuspend> NeededSuspension(const Observed& observed) {
  const auto& workload = observed.workload;
  if (!workload) return SetSuspend{true, LostCounts(observed)};
  // A job that has left its queue is not admitted again.
  const bool stays = !IsQueued(observed.job, observed.settings);
  const char* and_stays =
      stays ? "; it names no queue, so it stays suspended until spec.suspend is set to false" : "";
  if (!HasGrant(*workload)) {
    const std::string why = workload->eviction.empty() ? "it has no admission" : workload->eviction;
    return SetSuspend{true, AskedCounts(observed.job, *workload),
                      fmt::format("Kueue stops the job: {}{}", why, and_stays)};
  }
  if (!HasOutgrown(observed, *workload)) return std::nullopt;
  std::string why;
  if (stays) why = fmt::format("the job asks for more than Kueue has granted{}", and_stays);
  return SetSuspend{true, {}, std::move(why)};
}

// A job that cannot be suspended has been stopped by its status. It returns its quota, and may
// continue if Kueue admits it again. A Workload that the job has outgrown is useless, and so is
// that of a scaled job: once it is released, a count that a user chose looks like one that a
// smaller grant left. The Workload of a job without a queue stays, since without it the job would
// no longer be managed. The plan repeats the suspension, because FailedActions forgets an action
// that is due and not planned, and then tries it without back-off.
std::optional<Plan> PlanWhileStopped(const Observed& observed, SetSuspend suspension) {
  const auto& workload = observed.workload;
  if (!IsTrue(observed.job.status, kSuspended) || !observed.pods.empty()) return std::nullopt;
  if (!workload) return std::nullopt;
  const bool is_evicted = workload->evicted && workload->reserved;
  const bool is_useless = HasGrant(*workload) || (is_evicted && WasScaled(observed.job, *workload));
  Plan plan;
  if (is_useless && IsQueued(observed.job, observed.settings)) {
    plan = Do(observed, DeleteWorkload{});
  } else if (is_evicted) {
    plan = Do(observed, ReleaseWorkload{});
  } else {
    return std::nullopt;
  }
  plan.actions.emplace_back(std::move(suspension));
  return plan;
}

std::optional<Plan> PlanWhileRunning(const Observed& observed) {
  std::optional<SetSuspend> suspension = NeededSuspension(observed);
  if (!suspension) return std::nullopt;
  if (RunsOnItsGrant(observed)) {
    return Do(observed, SetSuspend{false, GrantedCounts(observed.job, *observed.workload)});
  }
  if (observed.is_suspend_refused) return PlanWhileStopped(observed, *std::move(suspension));
  return Do(observed, *std::move(suspension));
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

// Quota that Kueue has reserved is for enough workers, or PlanWhileSuspended finds that it is not.
bool HasOtherMinimum(const ObservedWorkload& workload, const api::TrainingJob& job) {
  if (workload.reserved || workload.admitted) return false;
  return workload.min_workers.value_or(MinWorkers(job)) != MinWorkers(job);
}

// A job that runs on less than it requested has the granted number in its spec.
bool HasOtherCounts(const ObservedWorkload& workload, const api::TrainingJob& job) {
  std::map<api::Role, int> counts;
  for (const auto& [role, spec] : job.spec.replica_specs) {
    if (spec.replicas > 0) counts[role] = spec.replicas;
  }
  const auto asked = workload.counts.find(api::Role::kWorker);
  const bool is_smaller = job.spec.elastic && HasGrant(workload) && HasGrantedNumber(job, workload);
  if (is_smaller && asked != workload.counts.end()) counts[api::Role::kWorker] = asked->second;
  return workload.counts != counts;
}

// Kueue reads pod sets, queue, priority and time limit from the Workload, so an edit of any needs a
// new one. Nothing else may ask for one: a new Workload waits behind all others.
bool IsMadeFrom(const ObservedWorkload& workload, const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  const auto priority = PriorityOf(job);
  return !HasOtherCounts(workload, job) && !HasOtherMinimum(workload, job) &&
         !IsForOtherPods(workload, job, observed.settings) && workload.queue == QueueName(job) &&
         workload.priority_class == (priority ? priority->name : "") &&
         !HasOtherTimeLimit(workload, job);
}

std::optional<Plan> PlanWhileSuspended(const Observed& observed) {
  // Wait until PlanSuspended has set the condition and the pods are gone.
  if (!IsTrue(observed.job.status, kSuspended) || !observed.pods.empty()) return std::nullopt;
  const auto& workload = observed.workload;
  if (!workload) {
    auto counts = LostCounts(observed);
    if (counts.empty() || observed.is_suspend_failing) return NewWorkloadPlan(observed);
    return Do(observed, SetSuspend{true, std::move(counts)});
  }
  // On a grant that is not enough, the job would be stopped again at once.
  const bool is_short = HasGrant(*workload) && (!IsEnough(*workload, observed.job) ||
                                                HasGivenBackTooMuch(*workload, observed.job));
  const bool is_useless = !IsMadeFrom(*workload, observed) || workload->finished || is_short;
  const bool is_evicted = workload->evicted && workload->reserved;
  if (is_useless || is_evicted) {
    // If the user has suspended the job, nobody has set its number back to what it asked for, which
    // the Workload alone knows. A server that does not take this must not make the job keep its
    // quota.
    const bool had_grant = is_evicted || HasGrant(*workload);
    auto counts = had_grant ? AskedCounts(observed.job, *workload) : std::map<api::Role, int>();
    if (!counts.empty() && !observed.is_suspend_failing) {
      return Do(observed, SetSuspend{true, std::move(counts)});
    }
  }
  if (is_useless) return Do(observed, DeleteWorkload{});
  if (is_evicted) return Do(observed, ReleaseWorkload{});
  if (!HasGrant(*workload)) return std::nullopt;
  return Do(observed,
            SetSuspend{false, GrantedCounts(observed.job, *workload),
                       fmt::format("queue {} has admitted the job", QueueName(observed.job))});
}

// Returns true for a job that has stopped, and has then left the queue and been resumed by one
// edit. Kueue has nothing left to stop. One that the server does not let the operator suspend has
// stopped, too, and is not resumed: nobody has edited it since.
bool LeavesWhileStopped(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  const bool is_edited = job.status.observed_generation != job.metadata.generation;
  const bool has_stopped = IsTrue(job.status, kSuspended) && observed.pods.empty();
  const auto& workload = observed.workload;
  return is_edited && has_stopped && !observed.is_suspend_refused && workload &&
         !HasGrant(*workload);
}

// A job that cannot start, or that has left its queue, holds no quota once it has stopped. It
// queues again once its spec is usable and names a queue.
std::optional<Plan> PlanWithoutQueue(const Observed& observed) {
  const bool is_over = IsTrue(observed.job.status, kSuspended) && observed.pods.empty();
  if (!observed.workload || !is_over) return std::nullopt;
  return Do(observed, DeleteWorkload{});
}

}  // namespace

std::optional<SetSuspend> RefusedSuspension(const Observed& observed) {
  if (observed.invalid || observed.job.spec.suspend || !observed.is_suspend_refused) {
    return std::nullopt;
  }
  const bool is_managed = observed.workload || IsQueued(observed.job, observed.settings);
  return is_managed && !RunsOnItsGrant(observed) ? NeededSuspension(observed) : std::nullopt;
}

bool IsStoppedByKueue(const Observed& observed) {
  const auto& workload = observed.workload;
  if (!observed.invalid) return RefusedSuspension(observed).has_value();
  if (!workload) return IsQueued(observed.job, observed.settings);
  return !HasGrant(*workload) || IsTrue(observed.job.status, kSuspended);
}

std::optional<Plan> PlanQueued(const Observed& observed) {
  const bool is_queued = IsQueued(observed.job, observed.settings);
  // Without its Workload a job that cannot be suspended would go on.
  const bool may_go_on =
      observed.job.spec.suspend || IsUntouched(observed.workload) || LeavesWhileStopped(observed);
  if (observed.invalid || (!is_queued && may_go_on)) {
    if (std::optional<Plan> plan = PlanWithoutQueue(observed)) return plan;
  }
  // A job that has lost its queue label still runs on its Workload's quota, and ends with it.
  if (observed.invalid || !(is_queued || observed.workload)) return std::nullopt;
  return observed.job.spec.suspend ? PlanWhileSuspended(observed) : PlanWhileRunning(observed);
}

}  // namespace lockstep::controller
