#include "operator/controller/rules/parts/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "api/v1/defaults.h"
#include "api/v1/evaluation_numbers.h"
#include "api/v1/names.h"
#include "base/shorten.h"
#include "operator/controller/rules/parts/completions.h"
#include "operator/controller/rules/parts/group_size.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/state/replicas.h"
#include "operator/controller/state/times.h"

namespace lockstep::controller {
namespace {

// Bytes. The CRD allows 32,768 characters; it would reject any status that exceeds them.
constexpr std::size_t kLongestMessage = 16'384;

bool IsPresentMember(const Observed& observed, const ObservedPod& pod) {
  return IsMember(observed, pod) && !pod.is_gone;
}

// Counts replicas that have completed and whose pods are gone; returns how many there are. A chief
// that has finished stays finished, whatever pod it has.
int CountCompleted(const Observed& observed, api::TrainingJobStatus& status) {
  int completed = 0;
  for (const Replica& replica : AllReplicas(observed.job)) {
    if (!ReplicaCompleted(observed.job, replica)) continue;
    int& succeeded = status.replica_statuses.at(replica.role).succeeded;
    const bool is_chief = replica.role == api::Role::kChief;
    const bool is_counted = is_chief ? succeeded > 0 : FindPod(observed, replica) != nullptr;
    if (is_counted) continue;
    ++succeeded;
    ++completed;
  }
  return completed;
}

void CountPods(const Observed& observed, api::TrainingJobStatus& status) {
  int wanted = 0, ready = 0, kubelet_restarts = 0;
  status.replica_statuses.clear();
  for (const auto& [role, spec] : observed.job.spec.replica_specs) {
    status.replica_statuses[role].desired = spec.replicas;
    wanted += spec.replicas;
  }
  for (const ObservedPod& pod : observed.pods) {
    if (!IsPresentMember(observed, pod)) continue;
    api::ReplicaStatus& counts = status.replica_statuses[pod.role];
    const bool is_counted = IsCounted(observed, pod);
    // One that is to be deleted would seem to have vanished once it is gone.
    const bool goes = pod.role != api::Role::kEvaluator && is_counted;
    const bool is_ready = IsActive(pod) && pod.ready && !pod.being_deleted && !goes;
    const bool has_succeeded = ReplicaFinished(observed, pod);
    counts.succeeded += has_succeeded ? 1 : 0;
    counts.failed += PodFailed(pod) && !goes ? 1 : 0;
    counts.active += IsActive(pod) && !goes ? 1 : 0;
    counts.ready += is_ready ? 1 : 0;
    ready += is_ready || has_succeeded ? 1 : 0;
    // Those of a counted pod are among status.restarts.
    if (!is_counted) kubelet_restarts += pod.restart_count;
  }
  ready += CountCompleted(observed, status);
  status.ready_replicas = fmt::format("{}/{}", ready, wanted);
  const int restarts = status.restarts.application + status.restarts.disruption +
                       status.restarts.evaluator + kubelet_restarts;
  status.restart_count = std::max(status.restart_count, restarts);
}

bool HasSucceededChief(const api::TrainingJobStatus& status) {
  const auto chief = status.replica_statuses.find(api::Role::kChief);
  return chief != status.replica_statuses.end() && chief->second.succeeded > 0;
}

// JSON has no NaN, so non-finite values are dropped.
void DropNonFinite(std::optional<double>& value) {
  if (value && !std::isfinite(*value)) value.reset();
}

// With an Evaluator the other replicas do not evaluate. What it has found reaches the leading pod's
// reports, but a pod that is new or has ended does not know it: then the last numbers stand, until
// the Evaluator ends, which leaves its last ones.
void NoteEvaluation(const Observed& observed, const std::optional<api::Progress>& before,
                    api::TrainingJobStatus& status) {
  if (!status.progress || !api::HasEvaluator(observed.job.spec)) return;
  api::Progress& progress = *status.progress;
  const ObservedPod* pod = FindPod(observed, {api::Role::kEvaluator, 0});
  const bool has_ended = pod != nullptr && pod->termination && pod->termination->progress;
  const std::optional<api::Progress>& from = has_ended ? pod->termination->progress : before;
  if (!from || (!has_ended && api::HasEvaluation(progress))) return;
  api::CopyEvaluation(*from, progress);
}

void NoteProgress(const Observed& observed, api::TrainingJobStatus& status) {
  const std::optional<api::Progress> before = status.progress;
  if (observed.progress) {
    if (observed.progress->step > (before ? before->step : 0)) status.restarts.since_progress = 0;
    status.progress = observed.progress;
  }
  NoteEvaluation(observed, before, status);
  if (!status.progress) return;
  api::Progress& progress = *status.progress;
  for (auto* value :
       {&progress.loss, &progress.accuracy, &progress.test_accuracy, &progress.test_loss,
        &progress.mean_absolute_error, &progress.test_mean_absolute_error, &progress.goodput,
        &progress.estimated_remaining_seconds}) {
    DropNonFinite(*value);
  }
  if (!std::isfinite(progress.examples_per_second)) progress.examples_per_second = 0;
  if (!std::isfinite(progress.epoch)) progress.epoch = 0;
}

// A condition's reason and message may be a little old; its status may not.
void MaskReasons(const std::vector<api::Condition>& from, std::vector<api::Condition>& conditions) {
  if (from.size() != conditions.size()) return;
  for (std::size_t i = 0; i < from.size(); ++i) {
    conditions[i].reason = from[i].reason;
    conditions[i].message = from[i].message;
  }
}

}  // namespace

void SetCondition(const Observed& observed, api::TrainingJobStatus& status, std::string_view type,
                  bool value, std::string reason, std::string message) {
  const auto wanted = value ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse;
  auto it = std::ranges::find(status.conditions, type, &api::Condition::type);
  if (it == status.conditions.end()) {
    status.conditions.emplace_back();
    it = std::prev(status.conditions.end());
    it->type = type;
  }
  if (it->status != wanted) it->last_transition_time = WholeSeconds(observed.now);
  it->status = wanted;
  it->observed_generation = observed.job.metadata.generation;
  it->reason = std::move(reason);
  it->message = Shortened(std::move(message), kLongestMessage, " …");
}

void ClearCondition(const Observed& observed, api::TrainingJobStatus& status, std::string_view type,
                    std::string reason, std::string message) {
  if (!IsTrue(status, type)) return;
  SetCondition(observed, status, type, false, std::move(reason), std::move(message));
}

void AddActionFault(const Observed& observed, std::string_view type, Plan& plan) {
  if (!observed.action_fault) return;
  const auto& [reason, message] = *observed.action_fault;
  const api::Condition* before = FindCondition(observed.job.status, type);
  const bool is_new = before == nullptr || before->reason != reason;
  SetCondition(observed, plan.status, type, IsTrue(plan.status, type), reason, message);
  if (is_new) plan.events.push_back({PlannedEvent::Type::kWarning, reason, message});
}

Time StartTime(const Observed& observed) {
  const api::TrainingJobStatus& status = observed.job.status;
  if (status.start_time) return *status.start_time;
  const bool is_first_sight = FindCondition(status, kCreated) == nullptr;
  return WholeSeconds(is_first_sight ? observed.first_seen : observed.now);
}

api::TrainingJobStatus BaseStatus(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  api::TrainingJobStatus status = job.status;
  status.observed_generation = job.metadata.generation;
  status.selector = fmt::format("{}={},{}={}", api::kLabelJobName, job.metadata.name,
                                api::kLabelRole, api::RoleName(api::Role::kWorker));
  if (FindCondition(status, kCreated) == nullptr) {
    SetCondition(observed, status, kCreated, true, "JobCreated", "the operator has seen the job");
  }
  if (!job.spec.suspend) status.start_time = StartTime(observed);
  std::erase_if(status.counted_pods, [&observed](const std::string& uid) {
    return std::ranges::find(observed.pods, uid, &ObservedPod::uid) == observed.pods.end();
  });
  RecordCompleted(observed, status);
  status.variants = VariantResults(observed);
  NoteProgress(observed, status);
  NoteGroupWorkers(observed, status);
  // An unreadable spec may have no roles; the old counts are kept then.
  if (!job.spec.replica_specs.empty()) CountPods(observed, status);
  return status;
}

std::string StateOf(const api::TrainingJobStatus& status) {
  for (const char* type : {kFailed, kSucceeded, kSuspended, kRestarting, kRunning}) {
    if (IsTrue(status, type)) return type;
  }
  return kPending;
}

bool DiffersOnlyInCounts(const api::TrainingJobStatus& status,
                         const api::TrainingJobStatus& written) {
  if (HasSucceededChief(status) != HasSucceededChief(written)) return false;
  api::TrainingJobStatus masked = status;
  masked.replica_statuses = written.replica_statuses;
  masked.ready_replicas = written.ready_replicas;
  masked.restart_count = written.restart_count;
  masked.restarts.since_progress = written.restarts.since_progress;
  masked.progress = written.progress;
  MaskReasons(written.conditions, masked.conditions);
  // So many have made up a group that has grown, too.
  if (written.group_workers && status.group_workers > written.group_workers) {
    masked.group_workers = written.group_workers;
  }
  // Removals may wait (a retry time that has passed, the uid of a pod that is gone); additions may
  // not.
  if (!status.next_retry_time) masked.next_retry_time = written.next_retry_time;
  const bool only_forgets =
      std::ranges::all_of(status.counted_pods, [&written](const std::string& uid) {
        return std::ranges::find(written.counted_pods, uid) != written.counted_pods.end();
      });
  if (only_forgets) masked.counted_pods = written.counted_pods;
  return masked == written;
}

}  // namespace lockstep::controller
