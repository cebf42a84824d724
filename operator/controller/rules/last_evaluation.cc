#include "operator/controller/rules/last_evaluation.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/v1/names.h"
#include "operator/controller/rules/deadline_rule.h"
#include "operator/controller/rules/evaluator_rule.h"
#include "operator/controller/rules/parts/failure_report.h"
#include "operator/controller/rules/parts/kueue_grant.h"
#include "operator/controller/rules/parts/lost_pods.h"
#include "operator/controller/rules/parts/pending_reason.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/rules/running_rule.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

constexpr Replica kEvaluator{api::Role::kEvaluator, 0};

// Within this time, an operator that has just learned of the end knows whether the Evaluator works.
constexpr Duration kFirstAnswer = std::chrono::seconds(15);

bool MayRun(const Observed& observed) {
  // An invalid spec may lack parts.
  return !observed.invalid && !observed.job.spec.suspend && !LacksQuota(observed);
}

Duration TimeLeft(const Observed& observed, Time trained, Time known) {
  Time worked = trained;
  if (const std::optional<Duration>& since = observed.group.since_evaluation) {
    worked = std::max(worked, observed.now - *since);
  }
  const Time end = std::max(worked + observed.settings.evaluator_grace, known + kFirstAnswer);
  return std::min(end - observed.now, UntilDeadline(observed).value_or(Duration::max()));
}

bool LacksLastEvaluation(const Observed& observed) {
  if (ReplicaCount(observed.job, api::Role::kEvaluator) == 0) return false;
  const ObservedPod* pod = FindPod(observed, kEvaluator);
  return pod == nullptr || !PodSucceeded(*pod);
}

// An Evaluator's pod of an earlier attempt may still have the name that the next one needs.
void AddEvaluator(const Observed& observed, Plan& plan) {
  AddDeletes(observed, plan);
  if (FindPod(observed, kEvaluator) != nullptr) return;
  if (AddCreates(observed, {kEvaluator}, plan)) plan.status.next_retry_time.reset();
}

// Its last pod was the last failure, unless a replica that trains has failed since.
std::string WhyThereIsNoPod(const Observed& observed) {
  const std::optional<api::Failure>& last = observed.job.status.failure;
  const std::string none = Describe(kEvaluator) + " has no pod";
  if (!last || last->role != api::RoleName(kEvaluator.role)) return none;
  const std::string where = OnNode(last->node);
  if (last->exit_code == 0) {
    return fmt::format("{}; its last one{} was lost: {}", none, where, last->reason);
  }
  return fmt::format("{}; its last one{} exited with code {} ({})", none, where, last->exit_code,
                     last->reason);
}

}  // namespace

std::string MissingEvaluation(const Observed& observed) {
  if (!LacksLastEvaluation(observed)) return "";
  const std::string what = "; the Evaluator has not finished";
  const ObservedPod* pod = FindPod(observed, kEvaluator);
  if (pod == nullptr) return what + ": " + WhyThereIsNoPod(observed);
  if (PodFailed(*pod) || pod->being_deleted || IsUnreachable(observed, *pod)) {
    return what + ": " + Describe({pod, kEvaluator, Classify(observed.job, *pod)});
  }
  if (!MissesCheckpoints(observed)) return what;
  return what +
         " and does not see the checkpoints: is checkpoint.directory on a volume that it shares "
         "with the leading pod?";
}

std::optional<Plan> LastEvaluationPlan(const Observed& observed, Time trained, Time known) {
  const Duration left = TimeLeft(observed, trained, known);
  if (!LacksLastEvaluation(observed) || !MayRun(observed) || left <= Duration::zero()) {
    return std::nullopt;
  }
  std::optional<Plan> plan = PlanEvaluatorRestart(observed);
  if (!plan) {
    if (IsEvaluatorGone(observed)) return std::nullopt;
    // Its back-off leaves it no time.
    if (observed.evaluator_due && *observed.evaluator_due >= observed.now + left) {
      return std::nullopt;
    }
    plan.emplace().status = BaseStatus(observed);
    AddEvaluator(observed, *plan);
  }
  RequeueWithin(*plan, left);
  return plan;
}

}  // namespace lockstep::controller
