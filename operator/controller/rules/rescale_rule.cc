#include "operator/controller/rules/rescale_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/attempt.h"
#include "operator/controller/rules/status.h"

namespace lockstep::controller {

std::optional<Plan> PlanRescaled(const Observed& observed) {
  const std::string shape = ClusterShape(observed.job);
  if (shape.empty()) return std::nullopt;
  const auto other = std::ranges::find_if(observed.pods, [&](const ObservedPod& pod) {
    return pod.attempt == observed.job.status.attempt && pod.role != api::Role::kEvaluator &&
           !pod.cluster_shape.empty() && pod.cluster_shape != shape;
  });
  if (other == observed.pods.end()) return std::nullopt;
  const std::string message = fmt::format(
      "the job's size has changed from {} to {}; all replicas restart, which does not count "
      "against backoffLimit",
      other->cluster_shape, shape);
  Plan plan;
  plan.status = BaseStatus(observed);
  plan.status.next_retry_time.reset();
  OpenNextAttempt(observed, "Rescaled", message, plan.status);
  plan.events.push_back({PlannedEvent::Type::kNormal, "Rescaled", message});
  return plan;
}

}  // namespace lockstep::controller
