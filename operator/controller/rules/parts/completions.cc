#include "operator/controller/rules/parts/completions.h"

#include <algorithm>
#include <utility>

#include "api/v1/strategy_traits.h"
#include "api/v1/variants.h"
#include "operator/controller/rules/parts/pod_failures.h"

namespace lockstep::controller {
namespace {

bool IsHelper(const Observed& observed, const ObservedPod& pod) {
  return pod.role == api::Role::kParameterServer && HasHelpers(observed.job);
}

// Returns true if a helper may have ended only because it was told to: its pod is being deleted,
// and nobody saw it end before that.
bool MayHaveBeenTold(const Observed& observed, const ObservedPod& pod) {
  return IsHelper(observed, pod) && pod.being_deleted &&
         !ReplicaCompleted(observed.job, {pod.role, pod.index});
}

}  // namespace

bool ReplicaFinished(const Observed& observed, const ObservedPod& pod) {
  return SuccessCounts(observed, pod) && !MayHaveBeenTold(observed, pod);
}

bool ShowsCompletion(const Observed& observed, const ObservedPod& pod) {
  if (pod.role != api::Role::kWorker && !IsHelper(observed, pod)) return false;
  return IsMember(observed, pod) && ReplicaFinished(observed, pod);
}

void AddCompleted(const Replica& replica, api::TrainingJobStatus& status) {
  const bool is_worker = replica.role == api::Role::kWorker;
  std::vector<int>& completed = is_worker ? status.completed_indexes : status.completed_helpers;
  const auto place = std::ranges::lower_bound(completed, replica.index);
  if (place != completed.end() && *place == replica.index) return;
  completed.insert(place, replica.index);
}

void RecordCompleted(const Observed& observed, api::TrainingJobStatus& status) {
  for (const ObservedPod& pod : observed.pods) {
    if (ShowsCompletion(observed, pod)) AddCompleted({pod.role, pod.index}, status);
  }
}

std::vector<api::VariantResult> VariantResults(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  std::vector<api::VariantResult> results = job.status.variants;
  if (!job.spec.training || !api::TraitsOf(job.spec).trains_alone) return results;
  const int processes = job.spec.strategy->processes_per_pod.value_or(1);
  for (const ObservedPod& pod : observed.pods) {
    if (!IsMember(observed, pod) || !PodSucceeded(pod) || !pod.termination) continue;
    for (api::VariantResult result : pod.termination->results) {
      if (result.index / processes != pod.index) continue;
      result.name = api::VariantName(*job.spec.training, result.index);
      const auto place =
          std::ranges::lower_bound(results, result.index, {}, &api::VariantResult::index);
      if (place != results.end() && place->index == result.index) {
        if (observed.invalid) result.name = place->name;  // it may be unreadable by now
        *place = std::move(result);
      } else {
        results.insert(place, std::move(result));
      }
    }
  }
  return results;
}

}  // namespace lockstep::controller
