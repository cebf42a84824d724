#include "operator/controller/rules/finish_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/v1/defaults.h"
#include "api/v1/strategy_traits.h"
#include "operator/controller/rules/last_evaluation.h"
#include "operator/controller/rules/parts/attempt.h"
#include "operator/controller/rules/parts/completions.h"
#include "operator/controller/rules/parts/lost_pods.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/pod_group.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/rules/parts/workload_conditions.h"
#include "operator/controller/state/replicas.h"
#include "operator/controller/state/times.h"

namespace lockstep::controller {
namespace {

// How long a pod may take to end by itself. A kubelet reports the end of a container a moment
// before that of the pod, and the bundled trainer's replicas all end by themselves once training is
// done: deleting them meanwhile would destroy their logs.
constexpr Duration kOwnEnd = std::chrono::seconds(10);

bool IsAboutToEnd(const api::TrainingJob& job, const ObservedPod& pod) {
  return pod.termination.has_value() || (job.spec.training && IsTrue(job.status, kSucceeded));
}

// Returns true if a pod that still runs would run forever, and hold the job's quota. An Evaluator
// waits for checkpoints that nobody saves. A member of a training group that starts after the run's
// end waits for a leader or for parameter servers that have exited, because it cannot know that
// they will not come.
bool WaitsInVain(const api::TrainingJob& job, const ObservedPod& pod) {
  if (pod.role == api::Role::kEvaluator) return true;
  return api::HasTrainingGroup(job) && IsTrue(job.status, kSucceeded) && !pod.termination;
}

// Requires an ended job.
Time EndedAt(const Observed& observed) {
  return observed.ended_at.value_or(observed.job.status.completion_time.value_or(observed.now));
}

// Returns when to delete a pod of an ended job; nullopt to keep it.
std::optional<Time> CleanedUpAt(const Observed& observed, const ObservedPod& pod) {
  const api::TrainingJob& job = observed.job;
  const api::CleanPodPolicy policy = job.spec.run_policy.clean_pod_policy;
  if (policy == api::CleanPodPolicy::kAll) return observed.now;
  if (AllContainersEnded(pod)) return std::nullopt;
  // Kueue has taken back the quota that the pod still uses, and gives it to others once it ends.
  if (observed.workload && observed.workload->evicted) return observed.now;
  if (policy == api::CleanPodPolicy::kNone && !WaitsInVain(job, pod)) return std::nullopt;
  // Bounded, since a sidecar may keep a pod running after its main container has ended.
  return IsAboutToEnd(job, pod) ? EndedAt(observed) + kOwnEnd : observed.now;
}

void AddCleanUp(const Observed& observed, Plan& plan) {
  for (const ObservedPod& pod : observed.pods) {
    if (pod.being_deleted) continue;
    const std::optional<Time> due = CleanedUpAt(observed, pod);
    if (!due) continue;
    if (*due <= observed.now) {
      plan.actions.emplace_back(DeletePod{pod.name, pod.uid});
    } else {
      RequeueWithin(plan, *due - observed.now);
    }
  }
}

// The change that suspends a job may have edited its strategy as well. If no pod tells under which
// one the replicas have completed, they do not count: a run that was really done starts from its
// last checkpoint when the job is resumed, while a job that has succeeded can never train again.
bool CountsCompletedOnes(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  const bool may_be_edited =
      job.spec.suspend && job.status.observed_generation != job.metadata.generation;
  return !may_be_edited || IsIndependentAttempt(observed).has_value();
}

bool ReplicaSucceeded(const Observed& observed, const Replica& replica) {
  const bool has_completed = ReplicaCompleted(observed.job, replica);  // its pod may be gone
  if (has_completed && CountsCompletedOnes(observed)) return true;
  const ObservedPod* pod = FindPod(observed, replica);
  return pod != nullptr && SuccessCounts(observed, *pod);
}

bool HaveSucceeded(const Observed& observed, const std::vector<Replica>& replicas) {
  return std::ranges::all_of(replicas, [&observed](const Replica& replica) {
    return ReplicaSucceeded(observed, replica);
  });
}

// Returns the replicas whose success makes the job succeed by its present policy, if it has
// count(role) replicas of each role. A training group has one run, which has succeeded when its
// leading replica has. A worker that is absent at that time would find no group to join, so waiting
// for its success could take forever.
template <typename Count>
std::vector<Replica> Deciding(const api::TrainingJob& job, Count count) {
  std::vector<Replica> deciding;
  for (const api::Role role : {api::Role::kChief, api::Role::kWorker}) {
    for (int index = 0; index < count(role); ++index) deciding.push_back({role, index});
  }
  const bool by_leader =
      job.spec.success_policy != api::SuccessPolicy::kAllWorkers || api::HasTrainingGroup(job);
  if (by_leader && deciding.size() > 1) deciding.resize(1);
  return deciding;
}

std::vector<Replica> Deciding(const api::TrainingJob& job) {
  return Deciding(job, [&job](api::Role role) { return ReplicaCount(job, role); });
}

// By the numbers that the status is about.
std::vector<Replica> DecidingBefore(const api::TrainingJob& job) {
  return Deciding(job, [&job](api::Role role) {
    const auto counts = job.status.replica_statuses.find(role);
    return counts == job.status.replica_statuses.end() ? 0 : counts->second.desired;
  });
}

// Returns true if training may look finished only because an edit has removed replicas that still
// train. As with CountsCompletedOnes, a run that had really finished then starts from its last
// checkpoint. An end that was known before the edit stays known.
bool IsDoneOnlyByEdit(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  // The status of a suspended job already has the numbers after the edit. A job whose training had
  // finished would have succeeded instead of being suspended.
  if (IsTrue(job.status, kSuspended)) return true;
  if (job.status.observed_generation == job.metadata.generation) return false;
  return !observed.training_end_seen && !HaveSucceeded(observed, DecidingBefore(job));
}

// Returns true if the success of one of the role's pods, not the leading one, proves that the
// leading process has saved the result. The leading process tells this to the parameter servers or
// to the other members of its group, and they end with 0 only then.
bool ProvesTheEnd(const api::TrainingJob& job, api::Role role) {
  if (role == api::Role::kParameterServer) return true;
  return role != api::Role::kEvaluator && api::TraitsOf(job.spec).uses_collectives;
}

// Returns since when the run has been over, if the leading pod, which would report this, is lost;
// nullopt if the run is not over or the leading pod can still report it. The lost pod's successor
// would wait for replicas that do not come back. So would the leading pod's container after a
// restart by the kubelet, which until_stranded shows.
std::optional<Time> EndWithoutLeader(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  if (!api::HasTrainingGroup(job)) return std::nullopt;
  const ObservedPod* leader = FindPod(observed, LeadingReplica(job));
  const bool may_end = leader != nullptr && IsActive(*leader) && !leader->being_deleted &&
                       !IsUnreachable(observed, *leader) &&
                       observed.until_stranded != Duration::zero();
  if (may_end) return std::nullopt;
  std::optional<Time> end;
  for (const ObservedPod& pod : observed.pods) {
    if (!ProvesTheEnd(job, pod.role) || pod.attempt != job.status.attempt) continue;
    if (!PodSucceeded(pod)) continue;
    const Time seen = pod.succeeded_since.value_or(observed.now);
    end = std::min(end.value_or(seen), seen);
  }
  if (!ProvesTheEnd(job, api::Role::kWorker)) return end;
  for (const auto& [index, seen] : observed.completed_since) {  // their pods are gone
    end = std::min(end.value_or(seen), seen);
  }
  // An earlier operator has seen these completions. They count only if a pod shows that the attempt
  // is not an Independent one.
  const bool is_noted = !job.status.completed_indexes.empty() && CountsCompletedOnes(observed) &&
                        IsIndependentAttempt(observed) == false;
  if (!end && is_noted) end = observed.first_seen;
  return end;
}

// Returns since when this process has known that training is over. An API server or a node that
// cannot be reached delays the news, and a node's clock may be behind.
Time KnownSince(const Observed& observed) {
  return observed.training_end_seen.value_or(observed.first_seen);
}

// Returns when the last deciding replica ended, as its container reports it. If the pods are gone,
// returns the time of the last progress report, which is at most a few seconds earlier. Without
// such a report, returns the time since which this process has known that training is over.
Time TrainedAt(const Observed& observed, const std::vector<Replica>& deciding) {
  std::optional<Time> latest;
  for (const Replica& replica : deciding) {
    const ObservedPod* pod = FindPod(observed, replica);
    if (pod == nullptr || !pod->termination || !pod->termination->finished_at) continue;
    // A node's clock may be ahead.
    const Time reported =
        std::min(*pod->termination->finished_at, pod->succeeded_since.value_or(observed.now));
    latest = std::max(latest.value_or(reported), reported);
  }
  if (latest) return *latest;
  const std::optional<api::Progress>& progress = observed.job.status.progress;
  const std::optional<Time> last_report = progress ? progress->update_time : std::nullopt;
  // A node's clock may be ahead here, too.
  return std::min(last_report.value_or(KnownSince(observed)), KnownSince(observed));
}

// `kubectl wait`, Flux and Helm pass over a status of an earlier generation, so they would wait
// forever for a job that was edited after its end. The edit changes nothing else.
void ObserveGeneration(const Observed& observed, api::TrainingJobStatus& status) {
  const std::int64_t generation = observed.job.metadata.generation;
  if (status.observed_generation == generation) return;
  status.observed_generation = generation;
  for (api::Condition& condition : status.conditions) condition.observed_generation = generation;
}

std::string WhatHasFinished(const std::vector<Replica>& deciding, bool is_seen) {
  const std::string first = Describe(deciding.front());
  if (!is_seen) return first + " has told the other replicas that it has finished";
  return deciding.size() == 1 ? first + " has finished" : "all workers have finished";
}

}  // namespace

std::optional<Plan> PlanFinished(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  if (!IsTerminal(job.status)) return std::nullopt;
  Plan plan;
  plan.status = job.status;
  ObserveGeneration(observed, plan.status);
  AddCleanUp(observed, plan);
  AddForcedDeletes(observed, plan);
  AddPodGroupDeletion(observed, plan);
  AddWorkloadConditions(observed, plan);
  const auto& ttl = job.spec.run_policy.ttl_seconds_after_finished;
  if (!ttl || !job.status.completion_time) return plan;
  const Duration left = SecondsAfter(EndedAt(observed), *ttl) - observed.now;
  if (left > Duration::zero()) {
    RequeueWithin(plan, left);
  } else {
    // Garbage collection deletes its pods; but not as long as the job cannot be deleted.
    if (!observed.is_delete_failing) plan.actions.clear();
    plan.actions.emplace_back(DeleteJob{});
  }
  return plan;
}

std::optional<Time> TrainingEnd(const Observed& observed) {
  if (NodeCount(observed.job) == 0) return std::nullopt;  // a job scaled to zero is not trained
  if (HasOtherStrategy(observed)) return std::nullopt;
  const std::vector<Replica> deciding = Deciding(observed.job);
  const bool is_done = HaveSucceeded(observed, deciding) && !IsDoneOnlyByEdit(observed);
  return is_done ? TrainedAt(observed, deciding) : EndWithoutLeader(observed);
}

bool IsOverByEditAlone(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  if (NodeCount(job) == 0 || HasOtherStrategy(observed)) return false;
  return HaveSucceeded(observed, Deciding(job)) && IsDoneOnlyByEdit(observed);
}

std::optional<Plan> PlanSucceeded(const Observed& observed) {
  const std::optional<Time> end = TrainingEnd(observed);
  if (!end) return std::nullopt;
  const std::vector<Replica> deciding = Deciding(observed.job);
  if (auto waiting = LastEvaluationPlan(observed, *end, KnownSince(observed))) return waiting;
  std::string who = WhatHasFinished(deciding, HaveSucceeded(observed, deciding));
  who += MissingEvaluation(observed);
  const std::vector<api::VariantResult> results = VariantResults(observed);
  const auto diverged = std::ranges::count_if(results, &api::VariantResult::diverged);
  if (diverged > 0) who += fmt::format("; {} of {} variants diverged", diverged, results.size());
  return SucceededPlan(observed, who);
}

}  // namespace lockstep::controller
