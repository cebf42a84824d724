#include "operator/controller/rules/rescale_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "api/v1/strategy_traits.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/parts/attempt.h"
#include "operator/controller/rules/parts/group_size.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

struct ShapeChange {
  std::string reason, what;
};

// Returns how a pod with the job's elastic shape was told otherwise: of another leader or other
// parameter servers, or of bounds that the number of workers has left. Agents of torchrun with
// different limits would start the rendezvous again and again, since some wait for a worker that
// others do not admit.
std::optional<std::string> ElasticChange(const Observed& observed, const ObservedPod& pod) {
  const std::optional<std::string> peers = ElasticPeers(observed.job);
  if (!peers) return std::nullopt;
  if (!pod.elastic_peers.empty() && pod.elastic_peers != *peers) {
    return fmt::format("size has changed from {} to {}", pod.elastic_peers, *peers);
  }
  const std::optional<api::ElasticSpec> bounds = ReadElasticBounds(pod.elastic_bounds);
  if (!bounds) return std::nullopt;
  const auto [min, max] = *bounds;
  const int workers = ReplicaCount(observed.job, api::Role::kWorker);
  if (min <= workers && workers <= max) return std::nullopt;
  return fmt::format("size has changed to {} workers, and {} was told to expect {} to {}", workers,
                     pod.name, min, max);
}

std::optional<ShapeChange> FindShapeChange(const Observed& observed) {
  if (HasOtherStrategy(observed)) {
    const bool alone = api::TraitsOf(observed.job.spec).trains_alone;
    return ShapeChange{"StrategyChanged",
                       fmt::format("strategy has changed {} Independent", alone ? "to" : "from")};
  }
  const std::string shape = ClusterShape(observed.job);
  const bool follows = FollowsInPlace(observed);
  const auto other = std::ranges::find_if(observed.pods, [&](const ObservedPod& pod) {
    const bool stays = follows && WorkersOfShape(observed.job, pod.cluster_shape);
    return NotesShape(observed, pod) && pod.cluster_shape != shape && !stays;
  });
  if (other != observed.pods.end()) {
    return ShapeChange{"Rescaled",
                       fmt::format("size has changed from {} to {}", other->cluster_shape, shape)};
  }
  // After another change, all pods may have been created for the number that is wanted again.
  if (IsResizing(observed) && HasTakenTooLong(observed)) {
    return ShapeChange{"Rescaled", fmt::format("group has not followed from {} to {} workers",
                                               *GroupWorkers(observed),
                                               ReplicaCount(observed.job, api::Role::kWorker))};
  }
  for (const ObservedPod& pod : observed.pods) {
    if (!NotesShape(observed, pod)) continue;
    if (auto what = ElasticChange(observed, pod)) return ShapeChange{"Rescaled", *std::move(what)};
  }
  return std::nullopt;
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
  CloseAttempt(observed, plan.status);
  AnnounceNextAttempt(observed, change->reason, message, plan.status);
  plan.events.push_back({PlannedEvent::Type::kNormal, change->reason, message});
  return plan;
}

}  // namespace lockstep::controller
