#include "operator/controller/observer.h"

#include <algorithm>
#include <utility>

#include "api/v1/defaults.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/deadline_rule.h"
#include "operator/controller/rules/finish_rule.h"
#include "operator/controller/rules/parts/guards.h"
#include "operator/controller/rules/parts/kueue_grant.h"
#include "operator/controller/rules/parts/lost_pods.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/progress_deadline.h"
#include "operator/controller/rules/parts/readiness.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/job_facts.h"
#include "operator/controller/state/replicas.h"
#include "operator/controller/state/times.h"

namespace lockstep::controller {
namespace {

// Bounds the time that the job waits for, which a clock that was wrong may have written. Plans
// start from this status, so the bound is written, and the next reconcile does not start the wait
// again.
void BoundRetryTime(const Settings& settings, Time now, api::TrainingJobStatus& status) {
  if (!status.next_retry_time) return;
  const Duration longest = std::max(settings.restart_backoff, settings.restart_backoff_limit);
  status.next_retry_time = std::min(*status.next_retry_time, WholeSeconds(now + longest));
}

// Returns the time of the event that the status dates `noted`, by the wall clock as it is now;
// nullopt if there is none. That clock may have been wrong, or be so now: if this process saw the
// event, its steady clock decides, else the event is older than the first look at it. Unlike a
// retry's time, it is not corrected in the status.
std::optional<Time> SeenBy(const std::optional<Time>& noted, const Moment& moment,
                           std::optional<SeenTime>& seen) {
  if (!seen || seen->noted != noted) seen = {noted, moment.steady, seen.has_value()};
  if (!noted) return std::nullopt;
  const Time at = moment.TimeOf(seen->at);
  return seen->is_exact ? at : std::min(*noted, at);
}

// Returns true if the pod is a replica whose end ends or hinders the others.
bool IsPeer(const Observed& observed, const ObservedPod& pod) {
  return pod.role != api::Role::kEvaluator && !IsObsolete(observed, pod);
}

// Returns true if the pod's program, which the kubelet restarts, has ended since the last look by a
// failure that was no consequence of a peer's. At first sight, only the kubelet's time is known.
bool HasEndedForACause(const Observed& observed, const ObservedPod& pod, const Sight& sight,
                       bool is_first_sight) {
  // In a pod that has ended, last_end is the end before the last.
  if (!pod.last_end || pod.termination || EndedRun(pod) == sight.last_run) return false;
  const Termination& end = *pod.last_end;
  const bool is_old = is_first_sight && end.finished_at &&
                      observed.now - *end.finished_at > observed.settings.settling;
  const bool has_failed = end.exit_code != 0 || end.signal != 0;
  return IsPeer(observed, pod) && has_failed && !is_old && !MayBeConsequence(observed.job, end);
}

// Keeps since when a condition has held at each look: `since` if it holds for the first time.
void NoteSince(bool holds, SteadyTime since, std::optional<SteadyTime>& noted) {
  if (!holds) noted.reset();
  if (holds && !noted) noted = since;
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

// Returns true if a process before this one has seen the replica succeed, and the status says so.
bool IsNotedAsSucceeded(const Observed& observed, const ObservedPod& pod) {
  return IsMember(observed, pod) && ReplicaCompleted(observed.job, {pod.role, pod.index}) &&
         pod.termination && pod.termination->exit_code == 0;
}

// Returns true if a process before this one has written what the present run of the leading pod's
// program has reported, and it was not all of its work. Its node's clock may be wrong by less than
// `settling`: then this process waits for one more report.
bool HasReportedBefore(const Observed& observed) {
  const api::TrainingJobStatus& status = observed.job.status;
  const auto& progress = status.progress;
  if (!progress || !progress->update_time || !IsTrue(status, kRunning)) return false;
  const ObservedPod* leader = FindPod(observed, LeadingReplica(observed.job));
  if (ProgramReportsDone(*progress) || leader == nullptr || !leader->running_since) return false;
  const Time begun = *leader->running_since + observed.settings.settling;
  return *progress->update_time >=
         std::max(begun, FindCondition(status, kRunning)->last_transition_time);
}

}  // namespace

// A deleted node counts as silent. While the node watch is not current, no node does: a node that
// was added or has recovered since would be lost with everything that runs on it. A node that this
// process has never seen counts as deleted only once a current watch would have shown it, had it
// still existed when the pod was seen on it. During a wide outage, no node that is not ready counts
// as silent; when the outage ends, its silence starts again.
Observer::NodeState Observer::NodeStateOf(const std::string& node, SteadyTime now, bool is_current,
                                          Sight& sight) const {
  const auto missing = std::exchange(sight.node_missing, std::nullopt);
  if (stores_.nodes == nullptr || node.empty()) return NodeState::kWell;
  const auto known = stores_.nodes->Get({"", node});
  if (known) sight.node_known = true;
  if (known && known->value) return NodeState::kWell;
  if (known && stores_.node_health->IsWideOutage()) return NodeState::kOutage;
  if (!is_current) return NodeState::kUnknown;
  if (sight.node_known) return NodeState::kSilent;
  sight.node_missing = missing.value_or(now);
  return now - *sight.node_missing >= kNodesSilence ? NodeState::kSilent : NodeState::kUnknown;
}

void Observer::ObserveSights(ReconcileContext& context) const {
  const Moment& moment = context.moment;
  const bool nodes_are_current =
      stores_.nodes != nullptr && (!stores_.nodes_are_current || stores_.nodes_are_current());
  Observed& observed = context.observed;
  std::map<std::string, Sight> sights;
  bool saw_cause = false;
  for (ObservedPod& pod : observed.pods) {
    const auto known = context.memory.sights.extract(pod.uid);
    Sight sight = known.empty() ? Sight() : known.mapped();
    saw_cause |= HasEndedForACause(observed, pod, sight, known.empty());
    if (pod.last_end && !pod.termination) sight.last_run = EndedRun(pod);
    const NodeState node = NodeStateOf(pod.node, moment.steady, nodes_are_current, sight);
    // If its node ends the pod afterwards, neither the phase nor the 0 says that it has succeeded.
    const bool has_succeeded = sight.succeeded || IsNotedAsSucceeded(observed, pod);
    NoteSince(has_succeeded, moment.steady, sight.succeeded);
    pod.succeeded_since = moment.TimeOf(sight.succeeded);
    NoteSince(PodFailed(pod), moment.steady, sight.failed);
    NoteSince(PodSucceeded(pod), moment.steady, sight.succeeded);
    NoteSince(pod.being_deleted, moment.steady, sight.deleting);
    NoteSince(node == NodeState::kSilent, sight.node_missing.value_or(moment.steady),
              sight.node_silent);
    sight.is_pending = pod.phase == PodPhase::kPending;
    sight.is_at_work = IsPeer(observed, pod) && pod.phase == PodPhase::kRunning &&
                       !PodFailed(pod) && !sight.succeeded && !pod.being_deleted;
    if (sight.is_at_work) sight.place = PlaceOf(pod);
    pod.failed_since = moment.TimeOf(sight.failed);
    pod.succeeded_since = moment.TimeOf(sight.succeeded);
    pod.deleting_since = moment.TimeOf(sight.deleting);
    pod.node_silent_since = moment.TimeOf(sight.node_silent);
    pod.node_is_unknown = node == NodeState::kUnknown;
    pod.node_is_in_outage = node == NodeState::kOutage;
    if (sight != Sight()) sights[pod.uid] = sight;
  }
  std::swap(context.memory.sights, sights);
  // The remaining sights are of deleted pods.
  for (const auto& [uid, gone] : sights) {
    if (!gone.is_at_work) continue;
    saw_cause = true;
    // A gang's are known from its status: see NewPodFailures.
    const bool is_one_of_gang = observed.job.spec.restart_scope == api::RestartScope::kGang;
    if (!is_one_of_gang) context.memory.seen_failures.RecordGone(uid, gone.place);
  }
  if (saw_cause) {
    context.memory.last_cause = moment.steady;
    observed.last_cause = moment.now;
  }
  // A pod that never began may have waited for a guard that somebody had deleted.
  if (std::ranges::any_of(sights, [](const auto& gone) { return gone.second.is_pending; })) {
    context.memory.token_secret.attempt.reset();
    context.memory.network_policy.attempt.reset();
  }
}

void Observer::ObserveMemory(ReconcileContext& context) {
  const Moment& moment = context.moment;
  const JobMemory& memory = context.memory;
  Observed& observed = context.observed;
  observed.name_conflicts = memory.conflicts.Names();
  observed.create_fault = memory.failed_creates.Fault();
  observed.action_fault = memory.failed_actions.Fault();
  observed.is_suspend_refused = memory.failed_actions.IsRefused(SetSuspend{});
  observed.is_suspend_failing = memory.failed_actions.IsFailing(SetSuspend{});
  observed.is_delete_failing = memory.failed_actions.IsFailing(DeleteJob{});
  observed.last_status_write = moment.TimeOf(memory.last_status_write);
  observed.first_seen = moment.TimeOf(memory.first_seen);
  observed.last_cause = moment.TimeOf(memory.last_cause);
  observed.last_restart = moment.TimeOf(memory.last_restart);
  observed.incident = memory.incident;
  if (observed.incident) observed.incident->since = moment.TimeOf(memory.incident_since);
  observed.ignored_edit = memory.ignored_edit;
  const api::TrainingJobStatus& status = observed.job.status;
  observed.had_cause = memory.had_cause;
  observed.started_at = SeenBy(status.start_time, moment, context.memory.start);
  observed.ended_at = SeenBy(status.completion_time, moment, context.memory.completion);
}

void Observer::Observe(ReconcileContext& context) const {
  Observed& observed = context.observed;
  static_cast<ObservedJob&>(observed) = context.job->value;
  auto& refused = context.memory.refused_status;
  if (refused && observed.job.status != refused->instead_of) refused.reset();
  const bool may_write = !IsForeign(observed.job) && !IsBeingDeleted(observed.job);
  if (refused && may_write) observed.job.status = refused->status;
  auto pods = stores_.pods->OwnedBy(context.memory.owner);
  std::erase_if(pods, [](const auto& pod) { return !pod->value; });
  std::ranges::sort(pods, {}, [](const auto& pod) { return PlaceOf(*pod->value); });
  observed.pods.reserve(pods.size());
  for (const auto& pod : pods) observed.pods.push_back(*pod->value);
  observed.has_service = !stores_.services->AllOwnedBy(context.memory.owner).empty() ||
                         context.memory.hidden_service == observed.job.status.attempt;
  if (stores_.pod_groups != nullptr) {
    if (const auto group = ChildOf(*stores_.pod_groups, observed.job.metadata.name, context)) {
      observed.pod_group = group->value;
    }
  }
  context.moment = {with_.clock.Now(), with_.clock.SteadyNow()};
  observed.now = context.moment.now;
  if (may_write) BoundRetryTime(settings_, observed.now, observed.job.status);
  ObserveMemory(context);
  observed.settings = settings_;
  ObserveKueue(context);  // before what the number of workers decides
  const bool is_decided = !may_write || IsTerminal(observed.job.status);
  if (is_decided) context.memory.seen_failures = {};
  context.memory.seen_failures.AddGone(observed);
  ObserveSights(context);
  if (!is_decided) {
    context.memory.seen_failures.AddGone(observed);  // those that have just been missed
    context.memory.seen_restarts.Annotate(observed, context.moment.steady);
    context.memory.seen_completions.Annotate(observed, context.moment.steady);
    context.memory.seen_failures.Record(observed);
  }
  ObserveWait(context);
  observed.deleted_unstarted = context.memory.unstarted_pods.UpdateDeleted(observed);
  observed.gone_workers = context.memory.seen_workers.UpdateGone(observed);
  observed.started_workers = context.memory.seen_workers.Started();
  const TokenGuard& token = context.memory.token_secret;
  observed.has_token_secret =
      token.attempt == observed.job.status.attempt && token.has_bearer == HasReportBearer(observed);
  observed.has_network_policy =
      context.memory.network_policy.attempt == observed.job.status.attempt;
  observed.progress = LatestProgress(context);
  if (observed.job.spec.training) observed.group = with_.progress.Group(observed.job.metadata.uid);
  ObserveGroupSize(context);
  ObserveComplete(context);  // of the group as it is
  ObserveReports(context);
  observed.until_stranded = UntilStranded(observed);
  ObserveTrainingEnd(context);
  observed.evaluator_due = context.moment.TimeOf(
      context.memory.seen_evaluator.UpdateDue(observed, context.moment.steady));
  observed.evaluator_has_given_up = context.memory.seen_evaluator.has_given_up();
}

void Observer::ObserveTrainingEnd(ReconcileContext& context) {
  Observed& observed = context.observed;
  std::optional<SeenEnd>& seen = context.memory.training_end;
  const int attempt = observed.job.status.attempt;
  if (seen && seen->attempt != attempt) seen.reset();
  if (seen) observed.training_end_seen = context.moment.TimeOf(seen->at);  // TrainingEnd reads it
  const bool has_ended = TrainingEnd(observed).has_value();
  if (!has_ended) seen.reset();
  if (has_ended && !seen) seen = {attempt, context.moment.steady};
  observed.training_end_seen = seen ? std::optional(context.moment.TimeOf(seen->at)) : std::nullopt;
}

void Observer::ObserveWait(ReconcileContext& context) {
  Observed& observed = context.observed;
  std::optional<SteadyTime>& since = context.memory.waiting_since;
  NoteSince(IsWaiting(observed), context.moment.steady, since);
  observed.waiting_since = context.moment.TimeOf(since);
}

void Observer::ObserveComplete(ReconcileContext& context) {
  Observed& observed = context.observed;
  std::optional<SeenComplete>& seen = context.memory.complete;
  if (!IsComplete(observed)) return seen.reset();
  int restarts = 0;
  for (const ObservedPod& pod : observed.pods) {
    const bool is_needed =
        IsMember(observed, pod) && IsRequired(observed.job, {pod.role, pod.index});
    if (is_needed) restarts += pod.restart_count;
  }
  const int attempt = observed.job.status.attempt;
  const bool is_same = seen && seen->attempt == attempt && seen->kubelet_restarts == restarts;
  if (!is_same) seen = {attempt, restarts, context.moment.steady};
  observed.complete_since = context.moment.TimeOf(seen->since);
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
  std::optional<WorkerGrant>& grant = context.memory.worker_grant;
  const bool stays = workload && workload->uid != context.memory.deleted_workload;
  if (stays || !IsQueued(observed.job, settings_)) grant = WorkerGrantOf(observed);
  if (!workload) observed.lost_grant = grant;
  if (context.memory.failed_actions.IsFailing(SetSuspend{false, {}})) KeepGrantedWorkers(observed);
}

// A program that hangs reports nothing more, and so one that has reported to a process before this
// one is expected to go on. But what was told another URL or token does not reach this one.
std::optional<SteadyTime> Observer::AwaitedSince(ReconcileContext& context) const {
  const SteadyTime now = context.moment.steady;
  const api::TrainingJob& job = context.observed.job;
  if (!HasReportedBefore(context.observed)) return std::nullopt;
  const api::JobToken token = with_.TokenOf(job.metadata.uid);
  if (!token.present()) return now;  // not known yet: nothing is heard
  const std::string channel = ChannelOf(settings_.progress_url, token);
  const bool hears = std::ranges::all_of(
      context.observed.pods, [&](const auto& pod) { return pod.report_channel == channel; });
  NoteSince(hears, now, context.memory.hears_since);
  return context.memory.hears_since;
}

void Observer::ObserveReports(ReconcileContext& context) const {
  Observed& observed = context.observed;
  const api::TrainingJob& job = observed.job;
  if (with_.reports == nullptr || job.spec.training || IsTerminal(job.status)) return;
  ProgressReports::Run run{.attempt = job.status.attempt, .pod_uid = {}};
  if (const ObservedPod* leader = FindPod(observed, LeadingReplica(job))) {
    run.pod_uid = leader->uid;
    run.restarts = leader->restart_count;
  }
  const ProgressReports::Known known = with_.reports->Of(job.metadata.uid, run);
  observed.progress = known.latest;
  const bool may_be_of_before = !known.latest && !known.began_again;
  const auto since = may_be_of_before ? AwaitedSince(context) : known.same_since;
  if (!since) return;
  const SteadyTime now = context.moment.steady;
  observed.group.in_step_for = now - (known.is_cut_off ? now : std::max(*since, known.last_loss));
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
    with_.ForgetProgress(job.metadata.uid);
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
  const Rare<Termination>& end = leader->termination;
  return end && end->progress ? end->progress : said;
}

}  // namespace lockstep::controller
