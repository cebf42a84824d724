#include "operator/controller/rules/evaluator_rule.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <string>

#include "operator/controller/rules/lost_pod_rule.h"
#include "operator/controller/rules/pod_failures.h"
#include "operator/controller/rules/restart_rule.h"
#include "operator/controller/rules/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

const ObservedPod* EvaluatorPod(const Observed& observed) {
  return FindPod(observed, {api::Role::kEvaluator, 0});
}

bool IsPermanent(const Observed& observed, const ObservedPod& pod) {
  return HasFailed(pod) && Classify(observed.job, pod) == PodFailureCause::kPermanent;
}

std::string DelayText(Duration delay) {
  if (delay <= Duration::zero()) return "";
  return fmt::format(" in {}", std::chrono::duration_cast<std::chrono::seconds>(delay));
}

// Returns when the failed pod may be deleted. Requires: its failure is counted and not permanent.
Time ReplacedAt(const Observed& observed, const ObservedPod& pod) {
  const bool failed = HasFailed(pod) && Classify(observed.job, pod) != PodFailureCause::kDisruption;
  if (!failed) return observed.now;
  return pod.failed_since.value_or(observed.now) +
         RestartDelay(observed.settings, observed.job.status.restarts.evaluator);
}

}  // namespace

std::optional<Plan> PlanEvaluatorRestart(const Observed& observed) {
  const std::optional<PodFailure> failure = NewEvaluatorFailure(observed);
  if (!failure) return std::nullopt;
  Plan plan;
  plan.status = BaseStatus(observed);
  api::RestartCounts& restarts = plan.status.restarts;
  restarts.evaluator += failure->pod->restart_count;  // they are lost with the pod
  plan.status.counted_pods.push_back(failure->pod->uid);
  plan.status.failure = FailureOf(*failure);
  const std::string what = Describe(*failure);
  std::string message;
  switch (failure->cause) {
    case PodFailureCause::kPermanent:
      message = fmt::format("{}, which is not retried; the job goes on without evaluation", what);
      break;
    case PodFailureCause::kDisruption:
      ++restarts.disruption;
      message = fmt::format("{}; it starts again (disruptions: {})", what, restarts.disruption);
      break;
    case PodFailureCause::kApplication:
      ++restarts.evaluator;
      message = fmt::format(
          "{}; it starts again{} (failures of the Evaluator: {}, which do not count against "
          "backoffLimit)",
          what, DelayText(RestartDelay(observed.settings, restarts.evaluator)), restarts.evaluator);
      break;
  }
  plan.events.push_back({PlannedEvent::Type::kWarning, "EvaluatorFailed", message});
  return plan;
}

void AddEvaluatorReplacement(const Observed& observed, Plan& plan) {
  const ObservedPod* pod = EvaluatorPod(observed);
  if (pod == nullptr || !IsCounted(observed, *pod) || pod->being_deleted) return;
  if (IsPermanent(observed, *pod)) return;
  const Time due = ReplacedAt(observed, *pod);
  if (due > observed.now) {
    RequeueWithin(plan, due - observed.now);
  } else {
    plan.actions.emplace_back(DeletePod{pod->name, pod->uid, IsUnreachable(observed, *pod)});
  }
}

bool IsEvaluatorGone(const Observed& observed) {
  const ObservedPod* pod = EvaluatorPod(observed);
  return pod != nullptr && IsPermanent(observed, *pod);
}

}  // namespace lockstep::controller
