#include "operator/controller/rules/running_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/v1/tf_config_size.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/children/replica_env.h"
#include "operator/controller/rules/evaluator_rule.h"
#include "operator/controller/rules/gang_rule.h"
#include "operator/controller/rules/guard_rule.h"
#include "operator/controller/rules/kueue_rule.h"
#include "operator/controller/rules/lost_pod_rule.h"
#include "operator/controller/rules/pending_reason.h"
#include "operator/controller/rules/pod_failures.h"
#include "operator/controller/rules/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

constexpr char kAllReady[] = "AllReplicasReady";
// How soon a name that another owner has is tried again.
constexpr Duration kConflictRetry = std::chrono::minutes(1);

// Returns true if another owner has an object of this name.
bool HasConflict(const Observed& observed, const std::string& name) {
  const std::vector<std::string>& names = observed.name_conflicts;
  return std::ranges::find(names, name) != names.end();
}

// Returns true if the pod must be deleted before its replica can be recreated.
bool IsObsolete(const Observed& observed, const ObservedPod& pod) {
  return !IsMember(observed, pod) || IsCounted(observed, pod);
}

void AddDeletes(const Observed& observed, Plan& plan) {
  for (const ObservedPod& pod : observed.pods) {
    const bool has_own_rule = pod.role == api::Role::kEvaluator && IsMember(observed, pod);
    if (IsObsolete(observed, pod) && !pod.being_deleted && !has_own_rule) {
      plan.actions.emplace_back(DeletePod{pod.name, pod.uid, IsUnreachable(observed, pod)});
    }
  }
  AddEvaluatorReplacement(observed, plan);
  AddForcedDeletes(observed, plan);
}

// A name is taken while any pod of ours has it, whatever its attempt.
bool IsNameTaken(const Observed& observed, const Replica& replica) {
  const std::string name = PodName(observed.job, replica.role, replica.index);
  return HasConflict(observed, name) ||
         std::ranges::any_of(observed.pods,
                             [&name](const ObservedPod& pod) { return pod.name == name; });
}

// A gang starts together: no member is created while a pod of an earlier attempt exists. Nobody
// waits for an Evaluator's; only its successor does, since they have the same name.
bool MustWaitForOldMembers(const Observed& observed) {
  return std::ranges::any_of(observed.pods, [&observed](const ObservedPod& pod) {
    return pod.attempt != observed.job.status.attempt && pod.role != api::Role::kEvaluator;
  });
}

bool IsUp(const Observed& observed, const Replica& replica) {
  const ObservedPod* pod = FindPod(observed, replica);
  if (pod == nullptr || pod->being_deleted || IsObsolete(observed, *pod)) return false;
  return HasSucceeded(*pod) || (IsActive(*pod) && pod->ready);
}

void AddRunning(const Observed& observed, Plan& plan) {
  const std::string message = "all required replicas are ready";
  const bool before = IsTrue(plan.status, kRunning);
  SetCondition(observed, plan.status, kRunning, true, kAllReady, message);
  ClearCondition(observed, plan.status, kRestarting, kAllReady, message);
  if (!before) plan.events.push_back({PlannedEvent::Type::kNormal, "Running", message});
}

// Running stays True within an attempt, but a replaced pod that cannot start is reported.
void AddPendingReason(const Observed& observed, const PendingReason& pending, Plan& plan) {
  const api::Condition* before = FindCondition(observed.job.status, kRunning);
  const bool is_new = before == nullptr || before->reason != pending.reason;
  SetCondition(observed, plan.status, kRunning, IsTrue(plan.status, kRunning), pending.reason,
               pending.message);
  if (pending.is_warning && is_new) {
    plan.events.push_back({PlannedEvent::Type::kWarning, pending.reason, pending.message});
  }
}

struct Readiness {
  bool required = false;  // every replica that the job requires is up
  bool all = false;       // every other replica is up too
};

Readiness ReadinessOf(const Observed& observed) {
  const std::vector<Replica> wanted = WantedReplicas(observed.job);
  Readiness readiness{!wanted.empty(), !wanted.empty()};
  for (const Replica& replica : wanted) {
    if (IsUp(observed, replica)) continue;
    readiness.all = false;
    if (IsRequired(observed.job, replica)) readiness.required = false;
  }
  return readiness;
}

void UpdateRunning(const Observed& observed, Plan& plan) {
  if (!observed.name_conflicts.empty()) RequeueWithin(plan, kConflictRetry);
  const bool running = IsTrue(plan.status, kRunning);
  const Readiness ready = ReadinessOf(observed);
  const std::optional<PendingReason> pending = FindPendingReason(observed);
  // Once the job runs, what keeps optional replicas from starting is reported too, and so are a pod
  // that cannot be deleted and an Evaluator that sees no checkpoints.
  const bool is_hindered =
      !ready.all || observed.action_fault.has_value() || MissesCheckpoints(observed);
  const bool is_reported = ready.required ? running && is_hindered : true;
  if (pending && is_reported && (pending->is_warning || !running)) {
    AddPendingReason(observed, *pending, plan);
  } else if (ready.required) {
    const bool said = running && FindCondition(plan.status, kRunning)->reason == kAllReady;
    if (!said) AddRunning(observed, plan);
  } else if (!running) {
    SetCondition(observed, plan.status, kRunning, false, "PodsNotReady",
                 "not all replicas are ready yet");
  }
}

// Emitted once, when the job is first seen.
void WarnOfOverriddenEnv(const Observed& observed, Plan& plan) {
  if (FindCondition(observed.job.status, kCreated) != nullptr) return;
  const std::vector<std::string> names = OverriddenEnv(observed.job);
  if (names.empty()) return;
  plan.events.push_back({PlannedEvent::Type::kWarning, "EnvironmentOverridden",
                         fmt::format("the pod template sets {} itself; its values are kept",
                                     fmt::join(names, ", "))});
}

// Also emitted once.
void WarnOfNoTfConfig(const Observed& observed, Plan& plan) {
  const api::TrainingJob& job = observed.job;
  if (FindCondition(job.status, kCreated) != nullptr) return;
  for (const auto& [role, replicas] : job.spec.replica_specs) {
    if (HasTfConfig(job, role)) continue;
    plan.events.push_back(
        {PlannedEvent::Type::kWarning, "TfConfigLeftOut",
         fmt::format("TF_CONFIG would be longer than {} bytes; pods of role {} get none",
                     api::kLongestTfConfig, api::RoleName(role))});
  }
}

// Also emitted once, for settings that only a gang scheduler reads.
void WarnOfIgnoredScheduling(const Observed& observed, Plan& plan) {
  const auto& policy = observed.job.spec.run_policy.scheduling_policy;
  if (!policy || FindCondition(observed.job.status, kCreated) != nullptr) return;
  const bool asks = policy->min_available || !policy->queue.empty() ||
                    !policy->min_resources.empty() || policy->schedule_timeout_seconds;
  if (!asks || !observed.settings.gang_scheduler_name.empty()) return;
  plan.events.push_back({PlannedEvent::Type::kWarning, "SchedulingPolicyIgnored",
                         "the operator runs without --gang-scheduler-name: of "
                         "runPolicy.schedulingPolicy only priorityClass has an effect"});
}

// The CRD rejects such edits. Those that it cannot (its rules have a cost budget) are reported
// once.
void WarnOfIgnoredEdit(const Observed& observed, Plan& plan) {
  const auto known = observed.job.status.observed_generation;
  if (known == 0 || known == observed.job.metadata.generation) return;
  std::map<api::Role, std::string> hashes;  // one for each role: a template may be large
  std::vector<std::string> stale;
  for (const ObservedPod& pod : observed.pods) {
    if (!IsComparable(pod.spec_hash) || !IsMember(observed, pod)) continue;
    const auto [hash, is_new] = hashes.try_emplace(pod.role);
    if (is_new) hash->second = SpecHash(observed.job, pod.role);
    if (pod.spec_hash != hash->second) stale.push_back(pod.name);
  }
  if (stale.empty()) return;
  plan.events.push_back(
      {PlannedEvent::Type::kWarning, "EditIgnored",
       fmt::format("the edit reaches pods only when they are made: {} and {} others keep what they "
                   "were told; suspend and resume the job to start them all again",
                   stale.front(), stale.size() - 1)});
}

}  // namespace

bool AddCreates(const Observed& observed, const std::vector<Replica>& wanted, Plan& plan) {
  const auto& retry = observed.job.status.next_retry_time;
  if (retry && *retry > observed.now) {
    RequeueWithin(plan, *retry - observed.now);
    return false;
  }
  if (MustWaitForOldMembers(observed)) return false;
  if (!observed.has_service && !HasConflict(observed, observed.job.metadata.name)) {
    plan.actions.emplace_back(CreateService{});
  }
  if (!AddPodGroup(observed, plan)) return false;
  bool complete = true;
  std::vector<CreatePod> pods;
  std::map<api::Role, std::size_t> planned;
  const bool has_token = HasToken(observed);
  const bool has_policy = HasNetworkPolicy(observed);
  for (const Replica& replica : wanted) {
    if (FindPod(observed, replica) != nullptr) continue;
    complete = false;
    if (IsNameTaken(observed, replica)) continue;
    if (replica.role == api::Role::kEvaluator &&
        (IsEvaluatorGone(observed) || MustEvaluatorWait(observed, plan))) {
      continue;
    }
    // No more of a role can be created before the job is observed again.
    if (planned[replica.role]++ > observed.settings.most_actions) continue;
    pods.push_back(
        {replica.role, replica.index, observed.job.status.attempt, has_token, has_policy});
  }
  if (!pods.empty()) {
    AddGuards(observed, plan);
    const std::optional<TrainerImages> images = PeersImages(observed);
    for (CreatePod& pod : pods) pod.trainer_images = images;
  }
  plan.actions.insert(plan.actions.end(), pods.begin(), pods.end());
  return complete;
}

std::optional<Plan> PlanRunning(const Observed& observed) {
  Plan plan;
  plan.status = BaseStatus(observed);
  WarnOfOverriddenEnv(observed, plan);
  WarnOfNoTfConfig(observed, plan);
  WarnOfIgnoredScheduling(observed, plan);
  WarnOfIgnoredEdit(observed, plan);
  AddDeletes(observed, plan);
  const bool complete = AddCreates(observed, WantedReplicas(observed.job), plan);
  if (complete) plan.status.next_retry_time.reset();
  UpdateRunning(observed, plan);
  AddWorkloadConditions(observed, plan);
  return plan;
}

}  // namespace lockstep::controller
