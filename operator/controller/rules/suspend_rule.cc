#include "operator/controller/rules/suspend_rule.h"

#include <fmt/format.h>

#include <string>

#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/kueue_rule.h"
#include "operator/controller/rules/parts/attempt.h"
#include "operator/controller/rules/parts/lost_pods.h"
#include "operator/controller/rules/parts/pod_group.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/rules/parts/workload_conditions.h"

namespace lockstep::controller {
namespace {

bool MustStop(const Observed& observed) {
  return observed.job.spec.suspend || IsStoppedByKueue(observed);
}

// An operator with --kueue may have suspended the job, and would have resumed it.
std::string WhySuspended(const Observed& observed) {
  if (!observed.job.spec.suspend) return "Kueue has taken back what the job runs on";
  const std::string queue = QueueName(observed.job);
  if (queue.empty() || observed.settings.kueue) return "spec.suspend is true";
  return fmt::format(
      "spec.suspend is true; the job names the queue {}, but the operator runs without --kueue and "
      "does not resume it",
      queue);
}

}  // namespace

std::optional<Plan> PlanSuspended(const Observed& observed) {
  if (!MustStop(observed)) return std::nullopt;
  const api::TrainingJob& job = observed.job;
  Plan plan;
  plan.status = BaseStatus(observed);
  plan.status.start_time.reset();
  const std::string message = WhySuspended(observed);
  SetCondition(observed, plan.status, kSuspended, true, "Suspended", message);
  if (IsTrue(job.status, kSuspended)) {
    // The strategy may be edited once more before the job is resumed.
    if (!observed.invalid) ForgetCompleted(job, plan.status);
    AddActionFault(observed, kSuspended, plan);
    if (auto suspension = RefusedSuspension(observed)) {
      plan.actions.emplace_back(*std::move(suspension));
    }
    for (const ObservedPod& pod : observed.pods) {
      if (!pod.being_deleted) plan.actions.emplace_back(DeletePod{pod.name, pod.uid});
    }
    AddForcedDeletes(observed, plan);
    AddPodGroupDeletion(observed, plan);
    AddWorkloadConditions(observed, plan);
    return plan;
  }
  ClearCondition(observed, plan.status, kRunning, "Suspended", message);
  ClearCondition(observed, plan.status, kRestarting, "Suspended", message);
  if (!observed.pods.empty() || job.status.start_time) CloseAttempt(observed, plan.status);
  plan.status.next_retry_time.reset();
  plan.events.push_back({PlannedEvent::Type::kNormal, "Suspended", message});
  return plan;
}

std::optional<Plan> PlanResumed(const Observed& observed) {
  if (MustStop(observed) || !IsTrue(observed.job.status, kSuspended)) return std::nullopt;
  const std::string message = "spec.suspend is false";
  Plan plan;
  plan.status = BaseStatus(observed);
  SetCondition(observed, plan.status, kSuspended, false, "Resumed", message);
  // The strategy may have been edited since the attempt was closed.
  ForgetCompleted(observed.job, plan.status);
  RecheckCompleted(observed.job, plan.status);
  plan.events.push_back({PlannedEvent::Type::kNormal, "Resumed", message});
  return plan;
}

}  // namespace lockstep::controller
