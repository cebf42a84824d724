#include "operator/controller/rules/parts/workload_conditions.h"

#include <algorithm>
#include <utility>

#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/parts/attempt.h"
#include "operator/controller/rules/parts/kueue_grant.h"
#include "operator/controller/rules/parts/readiness.h"
#include "operator/controller/rules/parts/status.h"

namespace lockstep::controller {
namespace {

// Kueue times a job out by the reasons of PodsReady, and by no others: one that has not started
// since its admission, and one that has lost its readiness since. These are the reasons that
// Kueue's own integrations write (generatePodsReadyCondition in its pkg/controller/jobframework).
SetWorkloadCondition ReadyConditionOf(const ObservedWorkload& workload, bool is_running) {
  const bool is_lost = workload.readiness == kWaitForRecovery;
  if (workload.admitted && is_running) {
    const bool was_lost = is_lost || workload.readiness == kRecovered;
    return {kPodsReady, true, was_lost ? kRecovered : kStarted, "all required replicas are ready"};
  }
  if (workload.admitted && (workload.pods_ready || is_lost)) {
    return {kPodsReady, false, kWaitForRecovery, "required replicas have been lost"};
  }
  return {kPodsReady, false, kWaitForStart, kNotYetReady};
}

void AddReclaimableWorkers(const Observed& observed, Plan& plan) {
  if (!HasGrant(*observed.workload)) return;
  const int done = WorkersThatAreDone(observed);
  if (done <= observed.workload->reclaimable_workers) return;
  plan.actions.emplace_back(SetReclaimableWorkers{done});
}

}  // namespace

void AddWorkloadConditions(const Observed& observed, Plan& plan) {
  const auto& workload = observed.workload;
  if (!workload || workload->finished) return;
  const api::TrainingJobStatus& status = observed.job.status;
  for (const char* end : {kSucceeded, kFailed}) {
    if (!IsTrue(status, end)) continue;
    if (!std::ranges::all_of(observed.pods, AllContainersEnded)) return;
    const api::Condition* condition = FindCondition(status, end);
    plan.actions.emplace_back(SetWorkloadCondition{"Finished", true, end, condition->message});
    return;
  }
  AddReclaimableWorkers(observed, plan);
  // Kueue does not time out a Workload that it is evicting; ReleaseWorkload ends the eviction.
  if (workload->admitted && workload->evicted) return;
  // Running stays True within an attempt, whatever is lost.
  const bool is_ready = IsTrue(status, kRunning) && ReadinessOf(observed).required;
  SetWorkloadCondition tell = ReadyConditionOf(*workload, is_ready);
  // Kueue treats an absent condition like WaitForStart.
  if (workload->readiness.empty() && tell.reason == kWaitForStart) return;
  if (workload->pods_ready == tell.value && workload->readiness == tell.reason) return;
  plan.actions.emplace_back(std::move(tell));
}

}  // namespace lockstep::controller
