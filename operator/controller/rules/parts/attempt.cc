#include "operator/controller/rules/parts/attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "api/v1/strategy_traits.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// Returns true if each process of the pod has left its result.
bool HasResults(const api::TrainingJob& job, int index, const api::TrainingJobStatus& status) {
  const int processes = job.spec.strategy->processes_per_pod.value_or(1);
  for (int variant = index * processes; variant < (index + 1) * processes; ++variant) {
    if (!std::ranges::binary_search(status.variants, variant, {}, &api::VariantResult::index)) {
      return false;
    }
  }
  return true;
}

// Adds the kubelet's restarts of pods that are not counted yet.
void ChargeKubeletRestarts(const Observed& observed, api::RestartCounts& restarts) {
  for (const ObservedPod& pod : observed.pods) {
    if (pod.attempt != observed.job.status.attempt || IsCounted(observed, pod)) continue;
    int& charged = pod.role == api::Role::kEvaluator ? restarts.evaluator : restarts.application;
    charged += ChargedRestarts(pod);
  }
}

// The next attempt has no pods yet. Those of the closed one would seem to have vanished from it, or
// to have completed (ReplicaCompleted).
void ForgetCounts(api::TrainingJobStatus& status) {
  int wanted = 0;
  for (auto& [role, counts] : status.replica_statuses) {
    counts = {.desired = counts.desired};
    wanted += counts.desired;
  }
  status.ready_replicas = fmt::format("{}/{}", status.completed_indexes.size(), wanted);
}

}  // namespace

void ForgetAllCompleted(api::TrainingJobStatus& status) {
  status.completed_indexes.clear();
  status.variants.clear();
}

void RecheckCompleted(const api::TrainingJob& job, api::TrainingJobStatus& status) {
  if (!api::TraitsOf(job.spec).trains_alone) return;
  // Another number of processes gives a pod other variants. One that has its results already and
  // runs again ends at once, from its last checkpoint.
  if (job.spec.training) {
    std::erase_if(status.completed_indexes,
                  [&](int index) { return !HasResults(job, index, status); });
  }
  const int workers = ReplicaCount(job, api::Role::kWorker);
  if (workers > 0 && CompletedWorkers(job, status) >= workers) ForgetAllCompleted(status);
}

int CompletedWorkers(const api::TrainingJob& job, const api::TrainingJobStatus& status) {
  if (!api::TraitsOf(job.spec).trains_alone) return 0;
  const std::vector<int>& completed = status.completed_indexes;
  const auto end = std::ranges::lower_bound(completed, ReplicaCount(job, api::Role::kWorker));
  return static_cast<int>(end - completed.begin());
}

int WorkersThatAreDone(const Observed& observed) {
  const api::TrainingJobStatus& status = observed.job.status;
  const int completed = CompletedWorkers(observed.job, status);
  if (completed == 0) return 0;
  const auto holds_resources = [&](const ObservedPod& pod) {
    return pod.role == api::Role::kWorker && IsMember(observed, pod) && !AllContainersEnded(pod) &&
           std::ranges::binary_search(status.completed_indexes, pod.index);
  };
  return completed - static_cast<int>(std::ranges::count_if(observed.pods, holds_resources));
}

void ForgetCompleted(const api::TrainingJob& job, api::TrainingJobStatus& status) {
  if (!api::TraitsOf(job.spec).trains_alone) ForgetAllCompleted(status);
}

bool NotesShape(const Observed& observed, const ObservedPod& pod) {
  return pod.attempt == observed.job.status.attempt && pod.role != api::Role::kEvaluator &&
         !pod.cluster_shape.empty();
}

std::optional<bool> IsIndependentAttempt(const Observed& observed) {
  const auto pod = std::ranges::find_if(
      observed.pods, [&observed](const ObservedPod& each) { return NotesShape(observed, each); });
  if (pod == observed.pods.end()) return std::nullopt;
  return pod->cluster_shape == kIndependentShape;
}

bool HasOtherStrategy(const Observed& observed) {
  const bool alone = api::TraitsOf(observed.job.spec).trains_alone;
  return IsIndependentAttempt(observed).value_or(alone) != alone;
}

api::RestartCounts RestartsSoFar(const Observed& observed) {
  api::RestartCounts restarts = observed.job.status.restarts;
  ChargeKubeletRestarts(observed, restarts);
  return restarts;
}

// Where the kubelet restarts containers, its restarts are lost with the pods.
void CloseAttempt(const Observed& observed, api::TrainingJobStatus& status) {
  ChargeKubeletRestarts(observed, status.restarts);
  ++status.attempt;
  status.counted_pods.clear();
  status.completed_helpers.clear();
  status.started_roles.clear();  // the next attempt starts in the same order
  status.running_roles.clear();
  status.group_workers.reset();
  ForgetCompleted(observed.job, status);
  if (HasOtherStrategy(observed)) ForgetAllCompleted(status);
  ForgetCounts(status);
}

void AnnounceNextAttempt(const Observed& observed, const std::string& reason,
                         const std::string& message, api::TrainingJobStatus& status) {
  ClearCondition(observed, status, kRunning, reason, message);
  SetCondition(observed, status, kRestarting, true, reason, message);
}

}  // namespace lockstep::controller
