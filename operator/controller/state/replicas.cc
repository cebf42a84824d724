#include "operator/controller/state/replicas.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/v1/conditions.h"
#include "api/v1/defaults.h"
#include "api/v1/strategy_traits.h"
#include "operator/controller/state/dialects.h"

namespace lockstep::controller {
namespace {

// Returns false while what has completed is of an attempt that has ended, before the strategy was
// edited: only replicas that train alone do not run again.
bool CountsCompleted(const api::TrainingJob& job) {
  return !api::IsTrue(job.status, api::kSuspended) || api::TraitsOf(job.spec).trains_alone;
}

// Returns true if all replicas of the role have succeeded by their count alone.
bool AllSucceeded(const api::TrainingJob& job, api::Role role) {
  const auto counts = job.status.replica_statuses.find(role);
  if (counts == job.status.replica_statuses.end()) return false;
  const int replicas = ReplicaCount(job, role);
  return counts->second.desired == replicas && counts->second.succeeded == replicas;
}

// Returns true if a role has started that waited for the end of this one. Its work is done, then:
// a pod that is deleted afterwards, because its node is drained, say, is not needed again.
bool WasAwaited(const api::TrainingJob& job, api::Role role) {
  const api::DependencySpec end{role, api::DependencyStatus::kComplete};
  return std::ranges::any_of(job.status.started_roles, [&](api::Role started) {
    const auto spec = job.spec.replica_specs.find(started);
    if (spec == job.spec.replica_specs.end()) return false;
    return std::ranges::find(spec->second.depends_on, end) != spec->second.depends_on.end();
  });
}

}  // namespace

int ReplicaCount(const api::TrainingJob& job, api::Role role) {
  const auto spec = job.spec.replica_specs.find(role);
  return spec == job.spec.replica_specs.end() ? 0 : spec->second.replicas;
}

bool NeedsService(const api::TrainingJob& job) {
  if (!api::UsesBundledTrainer(job)) return true;
  if (api::TraitsOf(job.spec).trains_alone) return false;
  int count = 0;
  for (const auto& [role, spec] : job.spec.replica_specs) count += spec.replicas;
  return count > 1;
}

std::vector<Replica> AllReplicas(const api::TrainingJob& job) {
  std::vector<Replica> replicas;
  for (const auto& [role, spec] : job.spec.replica_specs) {
    for (int index = 0; index < spec.replicas; ++index) replicas.push_back({role, index});
  }
  return replicas;
}

bool HasStarted(const api::TrainingJob& job, api::Role role) {
  const auto spec = job.spec.replica_specs.find(role);
  if (spec == job.spec.replica_specs.end() || spec->second.depends_on.empty()) return true;
  const std::vector<api::Role>& started = job.status.started_roles;
  return std::ranges::find(started, role) != started.end();
}

bool HasBeenUp(const api::TrainingJob& job, api::Role role) {
  const std::vector<api::Role>& running = job.status.running_roles;
  return api::IsTrue(job.status, api::kRunning) ||
         std::ranges::find(running, role) != running.end();
}

bool HasHelpers(const api::TrainingJob& job) {
  return !job.spec.training && !api::TraitsOf(job.spec).has_parameter_servers &&
         ReplicaCount(job, api::Role::kParameterServer) > 0;
}

bool ReplicaCompleted(const api::TrainingJob& job, const Replica& replica) {
  if (replica.role == api::Role::kWorker) {
    if (!CountsCompleted(job)) return false;
    return std::ranges::binary_search(job.status.completed_indexes, replica.index);
  }
  if (replica.role == api::Role::kParameterServer) {
    if (!HasHelpers(job)) return false;
    return std::ranges::binary_search(job.status.completed_helpers, replica.index) ||
           AllSucceeded(job, replica.role) || WasAwaited(job, replica.role);
  }
  const auto counts = job.status.replica_statuses.find(replica.role);
  return replica.role == api::Role::kChief && counts != job.status.replica_statuses.end() &&
         counts->second.succeeded > 0;
}

std::vector<Replica> WantedReplicas(const api::TrainingJob& job) {
  std::vector<Replica> replicas = AllReplicas(job);
  std::erase_if(replicas,
                [&job](const Replica& replica) { return ReplicaCompleted(job, replica); });
  return replicas;
}

std::vector<Replica> StartedReplicas(const api::TrainingJob& job) {
  std::vector<Replica> replicas = WantedReplicas(job);
  std::erase_if(replicas, [&job](const Replica& each) { return !HasStarted(job, each.role); });
  return replicas;
}

Replica LeadingReplica(const api::TrainingJob& job) {
  const bool has_chief = ReplicaCount(job, api::Role::kChief) > 0;
  return {has_chief ? api::Role::kChief : api::Role::kWorker, 0};
}

int RequiredWorkers(const api::TrainingJob& job) {
  const int workers = ReplicaCount(job, api::Role::kWorker);
  if (!job.spec.elastic || workers == 0) return workers;
  // With servers and the scope Pod, workers come and go without a restart of the others.
  const bool comes_and_goes = job.spec.restart_scope == api::RestartScope::kPod &&
                              ReplicaCount(job, api::Role::kParameterServer) > 0;
  const bool runs_with_fewer = api::TraitsOf(job.spec).has_parameter_servers || comes_and_goes ||
                               DialectsOf(job, api::Role::kWorker).torch;
  return runs_with_fewer ? std::min(job.spec.elastic->min_replicas, workers) : workers;
}

bool IsRequired(const api::TrainingJob& job, const Replica& replica) {
  if (replica.role == api::Role::kEvaluator) return false;
  if (replica.role != api::Role::kWorker || !job.spec.elastic) return true;
  // In this order, since RequiredWorkers may parse the template.
  return replica.index < job.spec.elastic->min_replicas || replica.index < RequiredWorkers(job);
}

std::optional<int> NodeRank(const api::TrainingJob& job, const Replica& replica) {
  if (replica.role == api::Role::kChief) return replica.index;
  if (replica.role != api::Role::kWorker) return std::nullopt;
  return ReplicaCount(job, api::Role::kChief) + replica.index;
}

int NodeCount(const api::TrainingJob& job) {
  return ReplicaCount(job, api::Role::kChief) + ReplicaCount(job, api::Role::kWorker);
}

const ObservedPod* FindPod(const Observed& observed, const Replica& replica) {
  const std::tuple sought(replica.role, replica.index, observed.job.status.attempt);
  const auto pod = std::ranges::lower_bound(observed.pods, sought, {}, PlaceOf);
  return pod != observed.pods.end() && PlaceOf(*pod) == sought ? &*pod : nullptr;
}

std::vector<const ObservedPod*> RequiredPods(const Observed& observed) {
  std::vector<const ObservedPod*> pods;
  for (const Replica& replica : AllReplicas(observed.job)) {
    if (!IsRequired(observed.job, replica) || ReplicaCompleted(observed.job, replica)) continue;
    pods.push_back(FindPod(observed, replica));
  }
  return pods;
}

bool IsMember(const Observed& observed, const ObservedPod& pod) {
  return pod.attempt == observed.job.status.attempt &&
         pod.index < ReplicaCount(observed.job, pod.role);
}

std::string Describe(const Replica& replica) {
  return fmt::format("{}-{}", api::RoleName(replica.role), replica.index);
}

}  // namespace lockstep::controller
