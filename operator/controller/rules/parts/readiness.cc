#include "operator/controller/rules/parts/readiness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "api/v1/strategy_traits.h"
#include "operator/controller/rules/parts/completions.h"
#include "operator/controller/rules/parts/group_size.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/job_facts.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

using api::DependencySpec;
using api::DependencyStatus;

bool IsUp(const Observed& observed, const ObservedPod& pod) {
  if (pod.being_deleted || IsObsolete(observed, pod)) return false;
  return PodSucceeded(pod) || (IsActive(pod) && pod.ready);
}

struct Arrived {
  int replicas = 0, of = 0;
  bool All() const { return replicas >= of; }
};

bool HasArrived(const Observed& observed, const Replica& replica, DependencyStatus status) {
  if (status == DependencyStatus::kReady) return IsUp(observed, replica);
  if (ReplicaCompleted(observed.job, replica)) return true;
  const ObservedPod* pod = FindPod(observed, replica);
  return pod != nullptr && ReplicaFinished(observed, *pod);
}

// Counts the replicas that the job requires: there may never be room for the others.
Arrived Count(const Observed& observed, const DependencySpec& dependency) {
  Arrived arrived;
  if (!dependency.role || !dependency.status) return arrived;
  for (const Replica& replica : AllReplicas(observed.job)) {
    if (replica.role != *dependency.role || !IsRequired(observed.job, replica)) continue;
    ++arrived.of;
    if (HasArrived(observed, replica, *dependency.status)) ++arrived.replicas;
  }
  return arrived;
}

std::string_view StatusText(DependencyStatus status) {
  return status == DependencyStatus::kReady ? "is ready" : "has completed";
}

std::string WaitsText(const Observed& observed, api::Role role) {
  std::vector<std::string> awaited;
  for (const DependencySpec& dependency : observed.job.spec.replica_specs.at(role).depends_on) {
    const Arrived arrived = Count(observed, dependency);
    if (arrived.All()) continue;
    awaited.push_back(fmt::format("{} {} ({} of {})", api::RoleKey(*dependency.role),
                                  StatusText(*dependency.status), arrived.replicas, arrived.of));
  }
  if (awaited.empty()) return "";
  return fmt::format("{} waits until {}", api::RoleKey(role), fmt::join(awaited, " and "));
}

std::string StartsText(api::Role role, const std::vector<DependencySpec>& dependencies) {
  std::vector<std::string> met;
  for (const DependencySpec& each : dependencies) {
    met.push_back(fmt::format("{} {}", api::RoleKey(*each.role), StatusText(*each.status)));
  }
  return fmt::format("{} starts: {}", api::RoleKey(role), fmt::join(met, " and "));
}

}  // namespace

bool IsUp(const Observed& observed, const Replica& replica) {
  if (ReplicaCompleted(observed.job, replica)) return true;
  const ObservedPod* pod = FindPod(observed, replica);
  return pod != nullptr && IsUp(observed, *pod);
}

bool IsObsolete(const Observed& observed, const ObservedPod& pod) {
  return !IsMember(observed, pod) || IsCounted(observed, pod);
}

Readiness ReadinessOf(const Observed& observed) {
  const std::vector<Replica> wanted = WantedReplicas(observed.job);
  Readiness readiness{!wanted.empty(), !wanted.empty(), !wanted.empty()};
  for (const Replica& replica : wanted) {
    const ObservedPod* pod = FindPod(observed, replica);
    if (pod != nullptr && IsUp(observed, *pod)) continue;
    readiness.all = false;
    if (!IsRequired(observed.job, replica)) continue;
    readiness.required = false;
    const bool is_new =
        HasStarted(observed.job, replica.role) && !HasBeenUp(observed.job, replica.role);
    if (is_new) readiness.started = false;
  }
  if (!wanted.empty() && api::TraitsOf(observed.job.spec).trains_alone) {
    readiness.required = std::ranges::any_of(
        observed.pods, [&observed](const ObservedPod& pod) { return IsUp(observed, pod); });
    readiness.started = readiness.required;  // they have one role
  }
  return readiness;
}

bool LacksReplicas(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  const std::string state = StateOf(job.status);
  const bool has_run = state == kRunning || state == kRestarting;
  if (!has_run && state != kPending) return false;
  if (job.spec.suspend || IsBeingDeleted(job) || IsForeign(job)) return false;
  const std::vector<Replica> wanted = StartedReplicas(job);
  const auto is_up = [&observed](const Replica& replica) { return IsUp(observed, replica); };
  if (api::TraitsOf(job.spec).trains_alone) {
    return has_run && !wanted.empty() && std::ranges::none_of(wanted, is_up);
  }
  const int members = GroupWorkers(observed).value_or(std::numeric_limits<int>::max());
  return std::ranges::any_of(wanted, [&](const Replica& replica) {
    const bool is_new = (replica.role == api::Role::kWorker && replica.index >= members) ||
                        (!has_run && !HasBeenUp(job, replica.role));
    return !is_new && !is_up(replica) && IsRequired(job, replica);
  });
}

bool AddStartedRoles(const Observed& observed, Plan& plan) {
  bool any = false;
  for (const auto& [role, replicas] : observed.job.spec.replica_specs) {
    if (HasStarted(observed.job, role)) continue;
    const bool is_due = std::ranges::all_of(
        replicas.depends_on, [&](const auto& each) { return Count(observed, each).All(); });
    if (!is_due) continue;
    any = true;
    plan.status.started_roles.push_back(role);
    plan.events.push_back(
        {PlannedEvent::Type::kNormal, "RoleStarted", StartsText(role, replicas.depends_on)});
  }
  return any;
}

void NoteRunningRoles(const Observed& observed, api::TrainingJobStatus& status) {
  for (const auto& [role, replicas] : observed.job.spec.replica_specs) {
    if (replicas.replicas == 0 || role == api::Role::kEvaluator) continue;
    if (!HasStarted(observed.job, role) || HasBeenUp(observed.job, role)) continue;
    status.running_roles.push_back(role);
  }
}

std::string WaitsText(const Observed& observed) {
  std::vector<std::string> texts;
  for (const auto& [role, replicas] : observed.job.spec.replica_specs) {
    if (replicas.replicas == 0 || HasStarted(observed.job, role)) continue;
    if (std::string text = WaitsText(observed, role); !text.empty()) {
      texts.push_back(std::move(text));
    }
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace lockstep::controller
