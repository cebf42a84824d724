#include "operator/controller/rules/rescale_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/attempt.h"
#include "operator/controller/rules/status.h"

namespace lockstep::controller {
namespace {

struct ShapeChange {
  std::string reason, what;
};

std::optional<ShapeChange> FindShapeChange(const Observed& observed) {
  if (HasOtherStrategy(observed)) {
    const bool independent = api::HasStrategy(observed.job.spec, api::StrategyType::kIndependent);
    return ShapeChange{"StrategyChanged", fmt::format("strategy has changed {} Independent",
                                                      independent ? "to" : "from")};
  }
  const std::string shape = ClusterShape(observed.job);
  const auto other = std::ranges::find_if(observed.pods, [&](const ObservedPod& pod) {
    return NotesShape(observed, pod) && pod.cluster_shape != shape;
  });
  if (other == observed.pods.end()) return std::nullopt;
  return ShapeChange{"Rescaled",
                     fmt::format("size has changed from {} to {}", other->cluster_shape, shape)};
}

}  // namespace

std::optional<Plan> PlanRescaled(const Observed& observed) {
  const std::optional<ShapeChange> change = FindShapeChange(observed);
  if (!change) return std::nullopt;
  const std::string message =
      fmt::format("the job's {}; all replicas restart, which does not count against backoffLimit",
                  change->what);
  Plan plan;
  plan.status = BaseStatus(observed);
  plan.status.next_retry_time.reset();
  OpenNextAttempt(observed, change->reason, message, plan.status);
  plan.events.push_back({PlannedEvent::Type::kNormal, change->reason, message});
  return plan;
}

}  // namespace lockstep::controller
