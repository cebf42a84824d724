#include "operator/controller/observer.h"

#include <algorithm>
#include <utility>

#include "api/v1/defaults.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/deleted_rule.h"
#include "operator/controller/rules/finish_rule.h"
#include "operator/controller/rules/foreign_rule.h"
#include "operator/controller/rules/lost_pod_rule.h"
#include "operator/controller/rules/pod_failures.h"
#include "operator/controller/rules/readiness.h"
#include "operator/controller/rules/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// For a time that was noted before the clock was set back: the job must not wait until that time
// comes again.
void NotAfter(Time now, Time& noted) {
  noted = std::min(noted, now);
}
void NotAfter(Time now, std::optional<Time>& noted) {
  if (noted) NotAfter(now, *noted);
}

// Bounds the times of the status that rules wait for: another machine, or a clock that has been set
// back since, has written them. Plans start from this status, so that the bounds are written, and
// the next look at the job finds them instead of waiting anew.
void BoundTimes(const Settings& settings, Time now, api::TrainingJobStatus& status) {
  const Duration longest = std::max(settings.restart_backoff, settings.restart_backoff_limit);
  NotAfter(WholeSeconds(now + longest), status.next_retry_time);
  NotAfter(WholeSeconds(now), status.completion_time);
}

// Returns the pod to ask for its TrainerStatus: the leading one or, while that does not run or its
// node has been silent for too long, the Evaluator's; null if there is none. The job must have a
// training group and a valid spec. Requires: observed.group is empty. A leader that no longer
// answers does not count as lost by that here: once the Evaluator is asked, nobody knows any more.
const ObservedPod* ReportingPod(const Observed& observed) {
  for (const Replica& replica : {LeadingReplica(observed.job), Replica{api::Role::kEvaluator, 0}}) {
    const ObservedPod* pod = FindPod(observed, replica);
    if (pod == nullptr || !IsActive(*pod) || pod->ip.empty()) continue;
    if (!IsUnreachable(observed, *pod)) return pod;
  }
  return nullptr;
}

}  // namespace

// A deleted node counts as silent. While the node watch is not current, no node does: a node that
// was added or has recovered since would be lost with everything that runs on it. During a wide
// outage, no node that is not ready does; when the outage ends, its silence starts again.
bool Observer::IsSilentNode(const std::string& node) const {
  if (stores_.nodes == nullptr || node.empty()) return false;
  if (stores_.nodes_are_current && !stores_.nodes_are_current()) return false;
  const auto known = stores_.nodes->Get({"", node});
  if (!known) return true;
  return !known->value && !stores_.node_health->IsWideOutage();
}

void Observer::ObserveSights(ReconcileContext& context) const {
  const Time now = context.observed.now;
  const auto note = [now](bool holds, std::optional<Time>& since) {
    if (!holds) since.reset();
    if (holds && !since) since = now;
    NotAfter(now, since);
  };
  std::map<std::string, Sight> sights;
  for (ObservedPod& pod : context.observed.pods) {
    const auto known = context.memory.sights.extract(pod.uid);
    Sight sight = known.empty() ? Sight() : known.mapped();
    pod.succeeded_since = sight.succeeded;  // for a pod that its node ends afterwards
    note(HasFailed(pod), sight.failed);
    note(HasSucceeded(pod), sight.succeeded);
    note(pod.being_deleted, sight.deleting);
    note(IsSilentNode(pod.node), sight.node_silent);
    sight.is_pending = pod.phase == PodPhase::kPending;
    pod.failed_since = sight.failed;
    pod.succeeded_since = sight.succeeded;
    pod.deleting_since = sight.deleting;
    pod.node_silent_since = sight.node_silent;
    if (sight != Sight()) sights[pod.uid] = sight;
  }
  std::swap(context.memory.sights, sights);
  // The remaining sights are of deleted pods. A pod that never began may have waited for a guard
  // that somebody had deleted.
  if (std::ranges::any_of(sights, [](const auto& gone) { return gone.second.is_pending; })) {
    context.memory.token_secret.attempt.reset();
    context.memory.network_policy.attempt.reset();
  }
}

void Observer::Observe(ReconcileContext& context) const {
  Observed& observed = context.observed;
  static_cast<ObservedJob&>(observed) = context.job->value;
  auto& refused = context.memory.refused_status;
  if (refused && observed.job.status != refused->instead_of) refused.reset();
  // The status of other jobs is not written.
  const bool may_write = !IsForeign(observed.job) && !IsBeingDeleted(observed.job);
  if (refused && may_write) observed.job.status = refused->status;
  auto pods = stores_.pods.OwnedBy(context.memory.owner);
  std::erase_if(pods, [](const auto& pod) { return !pod->value; });
  std::ranges::sort(pods, {}, [](const auto& pod) { return PlaceOf(*pod->value); });
  observed.pods.reserve(pods.size());
  for (const auto& pod : pods) observed.pods.push_back(*pod->value);
  observed.has_service = !stores_.services.AllOwnedBy(context.memory.owner).empty() ||
                         context.memory.hidden_service == observed.job.status.attempt;
  if (stores_.pod_groups != nullptr) {
    if (const auto group = ChildOf(*stores_.pod_groups, observed.job.metadata.name, context)) {
      observed.pod_group = group->value;
    }
  }
  observed.name_conflicts = context.memory.conflicts.Names();
  observed.create_fault = context.memory.failed_creates.Fault();
  observed.action_fault = context.memory.failed_actions.Fault();
  observed.is_suspend_refused = context.memory.failed_actions.IsRefused(SetSuspend{});
  observed.is_delete_failing = context.memory.failed_actions.IsFailing(DeleteJob{});
  observed.now = with_.clock.Now();
  if (may_write) BoundTimes(settings_, observed.now, observed.job.status);
  JobMemory& memory = context.memory;
  for (auto* noted : {&memory.last_status_write, &memory.last_cause, &memory.last_restart}) {
    NotAfter(observed.now, *noted);
  }
  NotAfter(observed.now, memory.first_seen);
  if (memory.incident) NotAfter(observed.now, memory.incident->since);
  observed.last_status_write = context.memory.last_status_write;
  observed.first_seen = context.memory.first_seen;
  observed.last_cause = context.memory.last_cause;
  observed.last_restart = context.memory.last_restart;
  observed.incident = context.memory.incident;
  observed.ignored_edit = context.memory.ignored_edit;
  observed.settings = settings_;
  ObserveSights(context);
  if (may_write && !IsTerminal(observed.job.status)) {
    memory.seen_completions.Note(observed);
    memory.seen_failures.Note(observed);
  }
  ObserveWait(context);
  ObserveKueue(context);
  observed.gone_workers = context.memory.seen_workers.Note(observed);
  observed.has_token_secret = context.memory.token_secret.attempt == observed.job.status.attempt;
  observed.has_network_policy =
      context.memory.network_policy.attempt == observed.job.status.attempt;
  observed.progress = LatestProgress(context);
  if (observed.job.spec.training) observed.group = with_.progress.Group(observed.job.metadata.uid);
  observed.until_stranded = UntilStranded(observed);
  observed.evaluator_due = context.memory.seen_evaluator.Note(observed);
  observed.evaluator_has_given_up = context.memory.seen_evaluator.has_given_up();
  ObserveTrainingEnd(context);
}

void Observer::ObserveTrainingEnd(ReconcileContext& context) {
  Observed& observed = context.observed;
  std::optional<SeenEnd>& seen = context.memory.training_end;
  const int attempt = observed.job.status.attempt;
  if (seen && seen->attempt != attempt) seen.reset();
  if (seen) {
    NotAfter(observed.now, seen->at);
    observed.training_end_seen = seen->at;
  }
  if (!TrainingEnd(observed)) {
    seen.reset();
  } else if (!seen) {
    seen = {attempt, observed.now};
  }
  observed.training_end_seen = seen ? std::optional(seen->at) : std::nullopt;
}

void Observer::ObserveWait(ReconcileContext& context) {
  Observed& observed = context.observed;
  std::optional<Time>& since = context.memory.waiting_since;
  if (ReadinessOf(observed).required) {
    since.reset();
  } else if (!since) {
    since = observed.now;
  }
  NotAfter(observed.now, since);
  observed.waiting_since = since;
}

void Observer::ObserveKueue(ReconcileContext& context) const {
  Observed& observed = context.observed;
  // Flavors may be edited before the job is admitted again. While it runs, what was read is kept:
  // all its pods are placed alike, and the right to read flavors may be taken away.
  const bool is_stopped = observed.job.spec.suspend || IsTrue(observed.job.status, kSuspended);
  if (is_stopped) context.memory.flavors.clear();
  if (stores_.workloads == nullptr) return;
  // A job may have lost its queue label, or be unreadable, and still have its Workload.
  const auto workload = ChildOf(*stores_.workloads, WorkloadName(observed.job), context);
  if (workload) observed.workload = workload->value;
}

int Observer::PortOf(const ReconcileContext& context, const ObservedPod& pod) const {
  const api::TrainingJob& job = context.observed.job;
  std::optional<ReportingPort>& known = context.memory.reporting_port;
  if (!known || known->generation != job.metadata.generation || known->role != pod.role) {
    known = {.generation = job.metadata.generation,
             .role = pod.role,
             .port = with_.addresses.Of(job, pod.role, pod.index).port};
  }
  return known->port;
}

std::optional<api::Progress> Observer::LatestProgress(const ReconcileContext& context) const {
  const Observed& observed = context.observed;
  const api::TrainingJob& job = observed.job;
  if (IsTerminal(job.status)) {
    with_.progress.Forget(job.metadata.uid);
    return std::nullopt;
  }
  if (!api::HasTrainingGroup(job) || observed.invalid) {
    with_.progress.Pause(job.metadata.uid);
    return std::nullopt;
  }
  const ObservedPod* asked = ReportingPod(observed);
  const bool is_evaluator = asked != nullptr && asked->role == api::Role::kEvaluator;
  // Without one, another pod may have the polled address by now.
  const std::optional<api::Progress> said =
      asked == nullptr ? with_.progress.Pause(job.metadata.uid)
                       : with_.progress.Latest({.job_uid = job.metadata.uid,
                                                .host = asked->ip,
                                                .port = PortOf(context, *asked),
                                                .namespace_name = job.metadata.namespace_name,
                                                .is_evaluator = is_evaluator,
                                                .attempt = asked->attempt});
  if (asked != nullptr && !is_evaluator) return said;
  const ObservedPod* leader = FindPod(observed, LeadingReplica(job));
  if (leader == nullptr || IsActive(*leader)) return std::nullopt;
  const std::optional<Termination>& end = leader->termination;
  return end && end->progress ? end->progress : said;
}

}  // namespace lockstep::controller
