#include "operator/controller/rules/parts/plan.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <variant>

#include "api/v1/defaults.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/times.h"

namespace lockstep::controller {
namespace {

Plan TerminalPlan(const Observed& observed, std::string_view type, const std::string& reason,
                  const std::string& message) {
  const bool succeeded = type == kSucceeded;
  Plan plan;
  plan.status = BaseStatus(observed);
  ClearCondition(observed, plan.status, kRunning, reason, message);
  ClearCondition(observed, plan.status, kRestarting, reason, message);
  SetCondition(observed, plan.status, type, true, reason, message);
  plan.status.completion_time = WholeSeconds(observed.now);
  plan.status.next_retry_time.reset();
  plan.status.failure.reset();  // FailedBy sets it again: earlier ones are not why the job ends
  // Clean-up (finish_rule.cc) deletes active pods, an Evaluator's and those of a training group
  // that has succeeded whatever the policy, and pods are not counted again after this write.
  const bool is_evicted = observed.workload && observed.workload->evicted;
  const bool pods_stay =
      observed.job.spec.run_policy.clean_pod_policy == api::CleanPodPolicy::kNone && !is_evicted &&
      !(succeeded && api::HasTrainingGroup(observed.job));
  for (auto& [role, counts] : plan.status.replica_statuses) {
    const bool is_evaluator = role == api::Role::kEvaluator;
    if (pods_stay && !is_evaluator) continue;
    // The bundled trainer's group is done, and its members end by themselves. An Evaluator that
    // still runs is not, and nobody knows what else the pods of other images would have done.
    const bool all_done = succeeded && api::HasTrainingGroup(observed.job);
    if (all_done && !is_evaluator) counts.succeeded += counts.active;
    counts.active = counts.ready = 0;
  }
  plan.events.push_back({succeeded ? PlannedEvent::Type::kNormal : PlannedEvent::Type::kWarning,
                         succeeded ? "Succeeded" : reason, message});
  return plan;
}

}  // namespace

Plan SucceededPlan(const Observed& observed, const std::string& message) {
  return TerminalPlan(observed, kSucceeded, "TrainingSucceeded", message);
}

Plan FailedPlan(const Observed& observed, api::FailureReason reason, const std::string& message) {
  return TerminalPlan(observed, kFailed, std::string(NameOf(reason)), message);
}

void PutOffStatus(const Observed& observed, Duration delay, Plan& plan) {
  plan.status = observed.job.status;
  plan.status_can_wait = plan.only_counts = plan.only_first_sight = false;
  plan.events.clear();
  plan.resize.reset();
  RequeueWithin(plan, delay);
}

void RequeueWithin(Plan& plan, Duration delay) {
  delay = std::max(delay, Duration(std::chrono::milliseconds(1)));
  if (!plan.requeue_after || *plan.requeue_after > delay) plan.requeue_after = delay;
}

bool MakesPods(const Plan& plan) {
  return std::ranges::any_of(
      plan.actions, [](const Action& action) { return std::holds_alternative<CreatePod>(action); });
}

ActionKind KindOf(const Action& action) {
  return std::visit([](const auto& one) { return one.kKind; }, action);
}

bool IsCreate(const Action& action) {
  return KindOf(action) == ActionKind::kCreateForPods || KindOf(action) == ActionKind::kCreate;
}

int StageOf(const Action& action) {
  if (!IsCreate(action)) return 0;
  return KindOf(action) == ActionKind::kCreateForPods ? 1 : 2;
}

}  // namespace lockstep::controller
