#include "operator/controller/rules/last_evaluation.h"

#include <algorithm>

#include "operator/controller/rules/lost_pod_rule.h"
#include "operator/controller/rules/pod_failures.h"
#include "operator/controller/rules/restart_rule.h"
#include "operator/controller/rules/running_rule.h"
#include "operator/controller/rules/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

constexpr Replica kEvaluator{api::Role::kEvaluator, 0};

bool MayRun(const Observed& observed) {
  return !observed.job.spec.suspend && !(observed.workload && observed.workload->evicted);
}

void AddReplacement(const Observed& observed, Plan& plan) {
  const ObservedPod* pod = FindPod(observed, kEvaluator);
  if (pod == nullptr) {
    if (AddCreates(observed, {kEvaluator}, plan)) plan.status.next_retry_time.reset();
    return;
  }
  if (!IsCounted(observed, *pod)) return;
  if (!pod->being_deleted) {
    plan.actions.emplace_back(DeletePod{pod->name, pod->uid, IsUnreachable(observed, *pod)});
  }
  AddForcedDeletes(observed, plan);
}

}  // namespace

bool LacksLastEvaluation(const Observed& observed) {
  if (ReplicaCount(observed.job, api::Role::kEvaluator) == 0) return false;
  const ObservedPod* pod = FindPod(observed, kEvaluator);
  return pod == nullptr || !HasSucceeded(*pod);
}

std::optional<Plan> PlanLastEvaluation(const Observed& observed, Time trained) {
  const Duration left = trained + observed.settings.evaluator_grace - observed.now;
  if (!LacksLastEvaluation(observed) || !MayRun(observed) || left <= Duration::zero()) {
    return std::nullopt;
  }
  const std::vector<PodFailure> failures = NewPodFailures(observed);
  const auto failure = std::ranges::find(failures, kEvaluator, &PodFailure::replica);
  std::optional<Plan> plan;
  if (failure != failures.end()) {
    plan = PlanReplacement(observed, *failure);
    if (!plan) return std::nullopt;
  } else {
    plan.emplace().status = BaseStatus(observed);
    AddReplacement(observed, *plan);
  }
  RequeueWithin(*plan, left);
  return plan;
}

}  // namespace lockstep::controller
