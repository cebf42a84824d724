#include "operator/controller/memory/seen_evaluator.h"

#include "operator/controller/rules/finish_rule.h"
#include "operator/controller/rules/parts/lost_pods.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/restart_rule.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

bool IsLost(const Observed& observed, const ObservedPod& pod) {
  if (PodSucceeded(pod)) return false;
  return PodFailed(pod) || pod.being_deleted || IsUnreachable(observed, pod);
}

}  // namespace

std::optional<SteadyTime> SeenEvaluator::UpdateDue(const Observed& observed, SteadyTime now) {
  const int attempt = observed.job.status.attempt;
  if (attempt_ != attempt || ReplicaCount(observed.job, api::Role::kEvaluator) == 0) *this = {};
  attempt_ = attempt;
  const ObservedPod* pod = FindPod(observed, {api::Role::kEvaluator, 0});
  if (pod != nullptr && !IsMember(observed, *pod)) pod = nullptr;
  const std::string uid = pod == nullptr ? "" : pod->uid;
  if (uid != uid_) {
    if (!uid_.empty() && !is_lost_) AddLoss(observed, now);
    uid_ = uid;
    is_lost_ = false;
  }
  if (pod != nullptr && !is_lost_ && IsLost(observed, *pod)) {
    AddLoss(observed, now);
    is_lost_ = true;
  }
  if (pod != nullptr && PodFailed(*pod) && IsCounted(observed, *pod) &&
      Classify(observed.job, *pod) == PodFailureCause::kPermanent) {
    has_given_up_ = true;
  }
  return due_;
}

void SeenEvaluator::AddLoss(const Observed& observed, SteadyTime now) {
  const bool was_healthy = due_ && now - *due_ >= kHealthyRun && !TrainingEnd(observed).has_value();
  in_a_row_ = was_healthy ? 1 : in_a_row_ + 1;
  due_ = now + RestartDelay(observed.settings, in_a_row_);
}

}  // namespace lockstep::controller
