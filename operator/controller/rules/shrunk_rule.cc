#include "operator/controller/rules/shrunk_rule.h"

#include <algorithm>
#include <string>

#include "operator/controller/rules/finish_rule.h"
#include "operator/controller/rules/parts/attempt.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// Returns true if a pod that the edit has removed still trains, as far as pods can tell. One that
// is being deleted was removed by a plan whose status could not be written.
bool TrainsWithoutPlace(const Observed& observed) {
  return std::ranges::any_of(observed.pods, [&observed](const ObservedPod& pod) {
    const bool is_removed = pod.role != api::Role::kEvaluator &&
                            pod.attempt == observed.job.status.attempt &&
                            pod.index >= ReplicaCount(observed.job, pod.role);
    return is_removed && IsActive(pod) && !pod.termination && MayHaveStarted(pod);
  });
}

}  // namespace

std::optional<Plan> PlanShrunk(const Observed& observed) {
  if (IsTrue(observed.job.status, kSuspended) || !IsOverByEditAlone(observed)) return std::nullopt;
  if (!TrainsWithoutPlace(observed)) return std::nullopt;
  const char* reason = "Rescaled";
  const std::string message =
      "an edit has removed the replicas that still trained, and those that are left had finished; "
      "all replicas restart, which does not count against backoffLimit";
  Plan plan;
  plan.status = BaseStatus(observed);
  plan.status.next_retry_time.reset();
  CloseAttempt(observed, plan.status);
  ForgetAllCompleted(plan.status);
  AnnounceNextAttempt(observed, reason, message, plan.status);
  plan.events.push_back({PlannedEvent::Type::kNormal, reason, message});
  return plan;
}

}  // namespace lockstep::controller
