#include "operator/controller/reconciler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "operator/controller/rules/make_plan.h"
#include "operator/controller/rules/parts/attempt.h"
#include "operator/controller/rules/parts/blame.h"
#include "operator/controller/rules/parts/readiness.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/job_facts.h"
#include "operator/controller/state/kinds.h"

namespace lockstep::controller {
namespace {

// Only a fallback for a stalled watch: the caches' own events come sooner.
constexpr Duration kCacheRetry = std::chrono::seconds(1);
// Together with the reconcile threads, as many as RestClient has requests under way.
constexpr std::size_t kMostThreads = 32;

}  // namespace

Reconciler::Reconciler(const Collaborators& with, const Stores& stores, Settings settings)
    : with_(with),
      stores_(stores),
      settings_(std::move(settings)),
      pool_(kMostThreads),
      observer_(with_, stores_, settings_),
      executor_(with_, stores_, settings_, pool_),
      status_writer_(with_, settings_) {
  LOCKSTEP_CHECK(with_.tokens != nullptr || !settings_.job_tokens,
                 "job_tokens without the key for them");
}

absl::StatusOr<std::optional<Duration>> Reconciler::Reconcile(const kube::Key& key) {
  kube::Store<ObservedJob>::Ptr job = stores_.jobs->Get(key);
  if (!job) {  // deleted; the garbage collector removes its children
    Forget(key);
    return std::nullopt;
  }
  JobMemory& memory = MemoryOf(key, *job);
  const auto at_once = static_cast<std::size_t>(std::max(settings_.parallel_calls, 1));
  LOCKSTEP_RETURN_IF_ERROR(
      memory.expectations.Resolve(with_.client, stores_, memory.owner, pool_, at_once));
  if (!memory.expectations.AreMet(*job, memory.owner, stores_)) {
    ++stale_reads_;
    return kCacheRetry;
  }
  LOCKSTEP_RETURN_IF_ERROR(memory.conflicts.Look(with_.client, stores_, memory.owner,
                                                 with_.clock.SteadyNow(), pool_, at_once));
  ReconcileContext context{.job = std::move(job),
                           .observed = {},
                           .cluster = {},
                           .creates = {},
                           .mutex = {},
                           .memory = memory};
  status_writer_.TakeUpUnanswered(context);
  observer_.Observe(context);
  const Observed& observed = context.observed;
  NoteSigns(key, observed);
  Plan plan = MakePlan(observed);
  executor_.Bound(plan, memory);
  const std::size_t conflicts = memory.conflicts.size();
  if (const absl::Status done = executor_.Execute(plan, context); !done.ok()) {
    return ReportFault(done, context);
  }
  // Its change brings the job back sooner. What else the plan says is then planned again.
  if (context.wrote_job) return kCacheRetry;
  // Another owner has one of the names, which the next plan reports.
  if (memory.conflicts.size() != conflicts) return std::chrono::milliseconds(1);
  LOCKSTEP_RETURN_IF_ERROR(status_writer_.Write(plan, context));
  return plan.requeue_after;
}

absl::Status Reconciler::ReportFault(const absl::Status& fault, ReconcileContext& context) {
  if (context.wrote_job) return fault;
  Observed& observed = context.observed;
  const bool was_told = observed.action_fault.has_value();
  observed.create_fault = context.memory.failed_creates.Fault();
  observed.action_fault = context.memory.failed_actions.Fault();
  if (!observed.create_fault && !observed.action_fault) return fault;
  // The same plan but for what it says of the faults; the surplus workers that it notes are the
  // same. If it charges a restart, its only action was to write the granted number of workers
  // again. It is charged once: what is written here is what the next plan starts from.
  Plan plan = MakePlan(observed);
  if (IsTerminal(observed.job.status) && observed.action_fault && !was_told) {
    // Its conditions are final.
    plan.events.push_back({PlannedEvent::Type::kWarning, observed.action_fault->reason,
                           observed.action_fault->message});
  }
  LOCKSTEP_RETURN_IF_ERROR(status_writer_.Write(plan, context));
  return fault;
}

JobMemory& Reconciler::MemoryOf(const kube::Key& key, const kube::Cached<ObservedJob>& job) {
  const std::lock_guard lock(mutex_);
  JobMemory& memory = memories_[key];
  if (memory.job_uid != job.uid) {  // the first of its name, or a recreated job
    if (!memory.job_uid.empty()) with_.ForgetProgress(memory.job_uid);
    memory = {};
    signs_.erase(key);
    memory.job_uid = job.uid;
    memory.owner = {key.namespace_name, kube::OwnerKind(kTrainingJobKind), job.uid};
    memory.first_seen = with_.clock.SteadyNow();
    memory.had_cause = MayHaveCause(job.value.job);
  }
  return memory;
}

void Reconciler::NoteSigns(const kube::Key& key, const Observed& observed) {
  if (IsForeign(observed.job)) return;
  const bool is_short = LacksReplicas(observed);
  // Which restarts of a job that is being deleted are excused is no longer observed.
  const api::RestartCounts restarts =
      IsBeingDeleted(observed.job) ? observed.job.status.restarts : RestartsSoFar(observed);
  const std::lock_guard lock(mutex_);
  signs_[key].Update(is_short, restarts, observed.now);
}

std::map<kube::Key, JobSigns> Reconciler::signs() const {
  const std::lock_guard lock(mutex_);
  return signs_;
}

void Reconciler::Forget(const kube::Key& key) {
  const std::lock_guard lock(mutex_);
  signs_.erase(key);
  const auto it = memories_.find(key);
  if (it == memories_.end()) return;
  with_.ForgetProgress(it->second.job_uid);
  with_.events.Forget(it->second.job_uid);
  status_writer_.Forget(key);
  memories_.erase(it);
}

}  // namespace lockstep::controller
