#include "operator/controller/rules/restart_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "operator/controller/rules/parts/attempt.h"
#include "operator/controller/rules/parts/blame.h"
#include "operator/controller/rules/parts/failure_report.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/progress_deadline.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/times.h"
#include "operator/kube/backoff.h"

namespace lockstep::controller {
namespace {

// Returns true if the failure is that of a worker which the gang can do without, and whose program
// has not started: the others do not know it.
bool HasNeverJoined(const Observed& observed, const PodFailure& failure) {
  if (failure.pod == nullptr || MayHaveStarted(*failure.pod)) return false;
  return !IsRequired(observed.job, failure.replica) &&
         !std::ranges::binary_search(observed.started_workers, failure.replica.index);
}

// `lacks_workers`: by the status, workers that were ready have no pod now that has started.
bool IsGangFailure(const Observed& observed, const PodFailure& failure, bool lacks_workers) {
  if (!lacks_workers && HasNeverJoined(observed, failure)) return false;
  return observed.job.spec.restart_scope == api::RestartScope::kGang || !failure.stall.empty() ||
         LeadsFinishedPeers(observed, failure.replica);
}

// A success is none, unless a rule of podFailurePolicy is about it (the reason "Completed").
void ReportFailure(const PodFailure& failure, api::TrainingJobStatus& status) {
  if (!StartsAgainAfterSuccess(failure) || failure.rule) status.failure = FailureOf(failure);
}

// The failure of a pod ends the job; `charged` has counted it.
Plan FailedBy(const Observed& observed, const api::TrainingJobStatus& charged,
              const PodFailure& first, api::FailureReason reason, const std::string& message) {
  Plan plan = FailedPlan(observed, reason, message);
  plan.status.restarts = charged.restarts;
  ReportFailure(first, plan.status);
  return plan;
}

// How long after a charged consequence another one may come: a leading process saves before it
// ends.
constexpr Duration kLastConsequence = std::chrono::minutes(30);

// Returns true if the failure is one more consequence of what the present incident has charged.
bool IsPartOfIncident(const Observed& observed, const PodFailure& failure) {
  const std::optional<Incident>& incident = observed.incident;
  return incident && incident->charged_consequence &&
         incident->attempt == observed.job.status.attempt &&
         observed.now - incident->since <= kLastConsequence &&
         !incident->replicas.contains(failure.replica) && MayBeConsequence(observed.job, failure);
}

// Evictions reach the pods of a drained node over a few seconds, and each may be seen by itself.
// All that is lost within `settling` of the first loss is one incident, except a replica that was
// lost in it before: its successor has failed. A gang restarts as a whole, so each of its failures
// is a new incident.
bool GoesOn(const Observed& observed, const std::vector<PodFailure>& failures, bool gang) {
  const std::optional<Incident>& incident = observed.incident;
  if (gang || !incident || incident->attempt != observed.job.status.attempt) return false;
  const auto is_part = [&observed](const PodFailure& failure) {
    return IsPartOfIncident(observed, failure);
  };
  if (std::ranges::all_of(failures, is_part)) return true;
  if (observed.now - incident->since > observed.settings.settling) return false;
  return std::ranges::none_of(failures, [&incident](const PodFailure& failure) {
    return incident->replicas.contains(failure.replica);
  });
}

// Returns the present incident, with the failures.
Incident IncidentOf(const Observed& observed, const std::vector<PodFailure>& failures,
                    bool goes_on) {
  Incident incident =
      goes_on ? *observed.incident : Incident{observed.now, observed.job.status.attempt, {}};
  for (const PodFailure& failure : failures) incident.replicas.insert(failure.replica);
  return incident;
}

// Applies restart_backoff regardless of progress: a job that can report progress must not be able
// to have pods created continuously.
Duration DelayOf(const Observed& observed, int restarts) {
  Duration delay = RestartDelay(observed.settings, restarts);
  if (observed.last_restart) {
    const Time earliest = *observed.last_restart + observed.settings.restart_backoff;
    delay = std::max(delay, earliest - observed.now);
  }
  return delay;
}

// Charges one restart for everything that a gang lost, and closes its attempt.
void ChargeGang(const Observed& observed, const Blame& blame, api::TrainingJobStatus& status) {
  CloseAttempt(observed, status);
  if (blame.is_free) return;
  const bool disrupted = CountsAs(*blame.first) == PodFailureCause::kDisruption;
  ++(disrupted ? status.restarts.disruption : status.restarts.application);
}

void ChargePods(const Observed& observed, const std::vector<PodFailure>& failures,
                const Blame& blame, api::TrainingJobStatus& status) {
  for (const PodFailure& failure : failures) {
    const bool is_one_of_many = blame.is_incident && MayBeConsequence(*blame.job, failure);
    const bool is_charged =
        !blame.is_free && !IsPartOfIncident(observed, failure) &&
        (&failure == blame.first || !(blame.Explains(failure) || is_one_of_many));
    if (is_charged) {
      const bool disrupted = CountsAs(failure) == PodFailureCause::kDisruption;
      ++(disrupted ? status.restarts.disruption : status.restarts.application);
    }
    status.restarts.application += ChargedRestarts(*failure.pod);  // they are lost with the pod
    status.counted_pods.push_back(failure.pod->uid);
  }
}

// With restartScope Pod the kubelet restarts containers by itself; those restarts count too.
std::optional<Plan> PlanKubeletRestarts(const Observed& observed) {
  int restarts = observed.job.status.restarts.application;
  const ObservedPod* worst = nullptr;
  for (const ObservedPod& pod : observed.pods) {
    if (pod.role == api::Role::kEvaluator) continue;
    if (!IsMember(observed, pod) || IsCounted(observed, pod)) continue;
    restarts += ChargedRestarts(pod);
    if (worst == nullptr || ChargedRestarts(pod) > ChargedRestarts(*worst)) worst = &pod;
  }
  const int limit = observed.job.spec.run_policy.backoff_limit;
  if (worst == nullptr || ChargedRestarts(*worst) == 0 || restarts <= limit) return std::nullopt;
  const Replica replica{worst->role, worst->index};
  return FailedBy(observed, observed.job.status, {worst, replica, PodFailureCause::kApplication},
                  api::FailureReason::kBackoffLimitExceeded,
                  fmt::format("{} was restarted {} times; backoffLimit ({}) is spent",
                              Describe(replica), ChargedRestarts(*worst), limit));
}

// Returns true if the trainer has reported since then, and counts steps: a program of the user's
// may report other numbers alone. Its clock may differ from this one by much less than kHealthyRun.
bool HasReportedSteps(const Observed& observed, Time since) {
  const auto& progress = observed.progress ? observed.progress : observed.job.status.progress;
  return progress && (progress->step > 0 || progress->total_steps > 0) &&
         progress->update_time.value_or(observed.now) >= since;
}

// Returns since when the replicas have run; while roles wait for others, those of the roles that
// have been up. nullopt: none has.
std::optional<Time> RunningSince(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  if (IsTrue(job.status, kRunning)) {
    return FindCondition(job.status, kRunning)->last_transition_time;
  }
  std::optional<Time> since;
  for (const ObservedPod& pod : observed.pods) {
    if (!IsMember(observed, pod) || !HasBeenUp(job, pod.role)) continue;
    const auto& began = pod.termination ? pod.termination->started_at : pod.running_since;
    since = std::max(since, began);  // nullopt is less than any time
  }
  return since;
}

// Returns true if the replicas have run long enough for the back-off to start over. Where steps are
// reported they are the better measure; see NoteProgress.
bool WasHealthy(const Observed& observed) {
  std::optional<Time> since = RunningSince(observed);
  if (!since) return false;
  if (observed.last_restart) {  // it may have left them running
    const Duration delay =
        RestartDelay(observed.settings, observed.job.status.restarts.since_progress);
    since = std::max(*since, *observed.last_restart + delay);
  }
  return observed.now - *since >= kHealthyRun && !HasReportedSteps(observed, *since);
}

// Returns true if one of the replicas was lost in the latest incident already: its successor has
// failed.
bool HasFailedAgain(const Observed& observed, const std::vector<PodFailure>& failures) {
  return std::ranges::any_of(failures, [&observed](const PodFailure& failure) {
    return observed.incident && observed.incident->replicas.contains(failure.replica);
  });
}

// Sets when the next replicas may be created. Those that wait already do not wait longer since
// another one is lost: where nodes are drained one after the other, they would wait for the last.
void SetRetryTime(const Observed& observed, bool others_wait, api::TrainingJobStatus& status) {
  if (WasHealthy(observed)) status.restarts.since_progress = 0;
  const Duration delay = DelayOf(observed, ++status.restarts.since_progress);
  const std::optional<Time> awaited = std::exchange(status.next_retry_time, std::nullopt);
  if (delay > Duration::zero()) status.next_retry_time = WholeSeconds(observed.now + delay);
  if (others_wait && awaited && *awaited > observed.now && status.next_retry_time) {
    status.next_retry_time = std::min(*awaited, *status.next_retry_time);
  }
}

// The failures that count against backoffLimit. status.restarts has the kubelet's restarts of a
// container only once its pod is counted there.
int ApplicationFailures(const Observed& observed, bool gang, const api::TrainingJobStatus& status) {
  int failures = status.restarts.application;
  if (gang) return failures;  // it has counted all pods
  for (const ObservedPod& pod : observed.pods) {
    if (pod.role == api::Role::kEvaluator || !IsMember(observed, pod)) continue;
    const bool is_counted =
        std::ranges::find(status.counted_pods, pod.uid) != status.counted_pods.end();
    if (!is_counted) failures += ChargedRestarts(pod);
  }
  return failures;
}

std::string RestartMessage(const Observed& observed, const PodFailure& first, bool gang,
                           const api::TrainingJobStatus& status) {
  const Time next = status.next_retry_time.value_or(observed.now);
  return fmt::format("{}; {} again{} (application failures: {} of {}, disruptions: {})",
                     Describe(first), gang ? "all replicas start" : "it starts",
                     DelayText(next - observed.now), ApplicationFailures(observed, gang, status),
                     observed.job.spec.run_policy.backoff_limit, status.restarts.disruption);
}

// Returns the new failures that one plan judges together. Successes explain no failure, and no
// failure explains them: the next plan charges those that end beside failures.
std::vector<PodFailure> FailuresToJudge(const Observed& observed) {
  std::vector<PodFailure> failures = NewPodFailures(observed);
  if (!std::ranges::all_of(failures, StartsAgainAfterSuccess)) {
    std::erase_if(failures, StartsAgainAfterSuccess);
  }
  // A lost replica explains the lack of progress, so no stall is reported.
  if (!failures.empty()) return failures;
  if (std::optional<PodFailure> stall = FindStall(observed)) failures.push_back(*std::move(stall));
  return failures;
}

// Adds the restart of the first failure's replica, or of all of them, to a plan that has charged
// `failures`.
void AddRestart(const Observed& observed, const std::vector<PodFailure>& failures,
                const Blame& blame, bool gang, Plan& plan) {
  const PodFailure& first = *blame.first;
  const bool charges_consequence = blame.is_incident && !blame.is_free && !blame.has_cause &&
                                   MayBeConsequence(observed.job, first);
  api::TrainingJobStatus& status = plan.status;
  const bool goes_on = GoesOn(observed, failures, gang);
  const bool others_wait = !gang && !HasFailedAgain(observed, failures);
  const bool is_fresh =
      goes_on && observed.now - observed.incident->since <= observed.settings.settling;
  if (!is_fresh) SetRetryTime(observed, others_wait, status);
  ReportFailure(first, status);
  const std::string message = RestartMessage(observed, first, gang, status);
  const std::string reason(first.stall.empty() ? kRestarting : first.stall_reason);
  if (gang) AnnounceNextAttempt(observed, reason, message, status);
  plan.events.push_back({PlannedEvent::Type::kWarning, reason, message});
  plan.incident = IncidentOf(observed, failures, goes_on);
  plan.incident->charged_consequence |= charges_consequence;
}

}  // namespace

Plan FailedForGood(const Observed& observed, const PodFailure& permanent) {
  if (permanent.rule) {
    return FailedBy(observed, BaseStatus(observed), permanent,
                    api::FailureReason::kPodFailurePolicy,
                    fmt::format("{}, for which podFailurePolicy.rules[{}] fails the job",
                                Describe(permanent), permanent.rule->index));
  }
  const bool is_stall = permanent.stall_reason == kProgressDeadlineExceeded;
  return FailedBy(
      observed, BaseStatus(observed), permanent,
      is_stall ? api::FailureReason::kProgressDeadlineExceeded : api::FailureReason::kReplicaFailed,
      Describe(permanent) + ", which is not retried");
}

std::optional<Duration> UntilRestartsCount(const Observed& observed) {
  return observed.until_restarts_count;
}

Duration RestartDelay(const Settings& settings, int restarts) {
  if (restarts <= 1) return Duration::zero();
  return kube::BackoffDelay({.initial = settings.restart_backoff,
                             .limit = settings.restart_backoff_limit,
                             .factor = 2.0,
                             .jitter = 0.0},
                            restarts - 1, 0.0);
}

std::optional<Plan> PlanRestart(const Observed& observed) {
  const std::vector<PodFailure> failures = FailuresToJudge(observed);
  if (failures.empty()) return PlanKubeletRestarts(observed);
  if (const auto left = UntilSettled(observed, failures)) {
    Plan waiting;
    waiting.status = BaseStatus(observed);
    RequeueWithin(waiting, *left);
    return waiting;
  }
  const Blame blame = FindBlame(observed, failures);
  Plan plan;
  plan.status = BaseStatus(observed);
  api::TrainingJobStatus& status = plan.status;
  if (const PodFailure* permanent = FindPermanent(failures, blame)) {
    return FailedForGood(observed, *permanent);
  }
  const PodFailure& first = *blame.first;
  const bool lacks_workers = CountGoneWorkers(observed) > 0;
  const bool gang = std::ranges::any_of(failures, [&](const PodFailure& failure) {
    return IsGangFailure(observed, failure, lacks_workers);
  });
  gang ? ChargeGang(observed, blame, status) : ChargePods(observed, failures, blame, status);
  const int limit = observed.job.spec.run_policy.backoff_limit;
  if (ApplicationFailures(observed, gang, status) > limit) {
    return FailedBy(observed, status, first, api::FailureReason::kBackoffLimitExceeded,
                    fmt::format("{}; backoffLimit ({}) is spent", Describe(first), limit));
  }
  AddRestart(observed, failures, blame, gang, plan);
  plan.names_cause = !blame.first_may_be_consequence && !StartsAgainAfterSuccess(first);
  return plan;
}

}  // namespace lockstep::controller
