#include "operator/controller/rules/evaluator_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "operator/controller/rules/parts/failure_report.h"
#include "operator/controller/rules/parts/lost_pods.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/rules/restart_rule.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// How long a pod may go on after its main container has ended.
constexpr Duration kEndsByItself = std::chrono::seconds(10);

// Returns null if there is none, or if the job wants none any more.
const ObservedPod* EvaluatorPod(const Observed& observed) {
  const ObservedPod* pod = FindPod(observed, {api::Role::kEvaluator, 0});
  return pod != nullptr && IsMember(observed, *pod) ? pod : nullptr;
}

bool IsPermanent(const Observed& observed, const ObservedPod& pod) {
  return PodFailed(pod) && Classify(observed.job, pod) == PodFailureCause::kPermanent;
}

// Returns true if the bundled trainer has ended because an evaluation is not finite.
bool HasDiverged(const Observed& observed, const PodFailure& failure) {
  if (failure.cause != PodFailureCause::kPermanent || !api::UsesBundledTrainer(observed.job)) {
    return false;
  }
  const Rare<Termination>& end = failure.pod->termination;
  return end && end->exit_code == api::kExitDiverged;
}

Duration UntilReplaced(const Observed& observed) {
  return std::max(observed.evaluator_due.value_or(observed.now) - observed.now, Duration::zero());
}

}  // namespace

std::optional<Plan> PlanEvaluatorRestart(const Observed& observed) {
  const std::optional<PodFailure> failure = NewEvaluatorFailure(observed);
  if (!failure) return std::nullopt;
  if (HasDiverged(observed, *failure)) return FailedForGood(observed, *failure);
  Plan plan;
  plan.status = BaseStatus(observed);
  api::RestartCounts& restarts = plan.status.restarts;
  restarts.evaluator += failure->pod->restart_count;  // they are lost with the pod
  plan.status.counted_pods.push_back(failure->pod->uid);
  plan.status.failure = FailureOf(*failure);
  const std::string what = Describe(*failure);
  const std::string delay = DelayText(UntilReplaced(observed));
  std::string message;
  switch (failure->cause) {
    case PodFailureCause::kPermanent:
      message = fmt::format("{}, which is not retried; the job goes on without evaluation", what);
      break;
    case PodFailureCause::kDisruption:
      ++restarts.disruption;
      message =
          fmt::format("{}; it starts again{} (disruptions: {})", what, delay, restarts.disruption);
      break;
    case PodFailureCause::kApplication:
      ++restarts.evaluator;
      message = fmt::format(
          "{}; it starts again{} (failures of the Evaluator: {}, which do not count against "
          "backoffLimit)",
          what, delay, restarts.evaluator);
      break;
  }
  plan.events.push_back({PlannedEvent::Type::kWarning, "EvaluatorFailed", message});
  return plan;
}

void AddEvaluatorReplacement(const Observed& observed, Plan& plan) {
  const ObservedPod* pod = EvaluatorPod(observed);
  if (pod == nullptr || !IsCounted(observed, *pod) || pod->being_deleted) return;
  if (IsPermanent(observed, *pod)) {
    // A sidecar would keep the pod's resources until the end of the job. A pod without one ends by
    // itself a moment after its main container, and keeps its log.
    if (AllContainersEnded(*pod)) return;
    const Time due = pod->failed_since.value_or(observed.now) + kEndsByItself;
    if (observed.now < due) return RequeueWithin(plan, due - observed.now);
    plan.actions.emplace_back(DeletePod{pod->name, pod->uid});
    return;
  }
  if (MustEvaluatorWait(observed, plan)) return;
  plan.actions.emplace_back(DeletePod{pod->name, pod->uid, IsUnreachable(observed, *pod)});
}

bool MustEvaluatorWait(const Observed& observed, Plan& plan) {
  const Duration left = UntilReplaced(observed);
  if (left > Duration::zero()) RequeueWithin(plan, left);
  return left > Duration::zero();
}

bool IsEvaluatorGone(const Observed& observed) {
  if (observed.evaluator_has_given_up) return true;
  const ObservedPod* pod = EvaluatorPod(observed);
  return pod != nullptr && IsPermanent(observed, *pod);
}

}  // namespace lockstep::controller
