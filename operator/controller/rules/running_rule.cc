#include "operator/controller/rules/running_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/controller/children/addresses.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/rules/evaluator_rule.h"
#include "operator/controller/rules/parts/group_size.h"
#include "operator/controller/rules/parts/guards.h"
#include "operator/controller/rules/parts/lost_pods.h"
#include "operator/controller/rules/parts/pending_reason.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/pod_group.h"
#include "operator/controller/rules/parts/readiness.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/rules/parts/workload_conditions.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

constexpr char kAllReady[] = "AllReplicasReady", kNotReady[] = "PodsNotReady";
constexpr char kNotReadyMessage[] = "not all replicas are ready yet";
// How soon a name that another owner has is tried again.
constexpr Duration kConflictRetry = std::chrono::minutes(1);
// How often a group that is to have another size is looked at.
constexpr Duration kResizeInterval = std::chrono::seconds(1);

// Returns true if another owner has an object of this name.
bool HasConflict(const Observed& observed, const std::string& name) {
  const std::vector<std::string>& names = observed.name_conflicts;
  return std::ranges::find(names, name) != names.end();
}

// Returns true if the job has become too small for the pod, a worker's. It may be a member again; a
// pod of an earlier attempt, or of another role, cannot while the job runs.
bool IsScaledAway(const Observed& observed, const ObservedPod& pod) {
  return pod.role == api::Role::kWorker && pod.attempt == observed.job.status.attempt &&
         !IsMember(observed, pod) && !IsStillOfGroup(observed, pod);
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

void UpdateRunning(const Observed& observed, Plan& plan) {
  if (!observed.name_conflicts.empty()) RequeueWithin(plan, kConflictRetry);
  const bool running = IsTrue(plan.status, kRunning);
  const Readiness ready = ReadinessOf(observed);
  if (ready.started && !ready.required) NoteRunningRoles(observed, plan.status);
  const std::optional<PendingReason> pending = FindPendingReason(observed);
  // Once the job runs, what keeps optional replicas from starting is reported too, and so are a pod
  // that cannot be deleted and an Evaluator that sees no checkpoints.
  const bool is_hindered =
      !ready.all || observed.action_fault.has_value() || MissesCheckpoints(observed);
  const bool is_reported = ready.required ? running && is_hindered : true;
  // During a back-off, which may take minutes, required replicas are missing.
  const bool is_told = pending && (pending->is_warning || !running || pending->reason == kBackOff);
  if (is_told && is_reported) {
    AddPendingReason(observed, *pending, plan);
  } else if (ready.required) {
    const bool said = running && FindCondition(plan.status, kRunning)->reason == kAllReady;
    if (!said) AddRunning(observed, plan);
  } else if (!running) {
    SetCondition(observed, plan.status, kRunning, false, kNotReady, kNotReadyMessage);
  } else if (FindCondition(plan.status, kRunning)->reason != kAllReady) {
    // What it says has passed, and the pods are not ready yet.
    SetCondition(observed, plan.status, kRunning, true, kNotReady, kNotReadyMessage);
  }
}

// The leading pod's answer, which says that the group has followed, brings no change of an object.
void AddResize(const Observed& observed, Plan& plan) {
  const bool awaits_save = observed.group.AwaitsSave() && IsResizing(observed);
  if (observed.resizing_since || (awaits_save && observed.group.saves)) {
    RequeueWithin(plan, kResizeInterval);
  } else if (awaits_save) {
    RequeueWithin(plan, observed.settings.status_interval);
  }
  if (!observed.resized_from) return;
  plan.resize = {*observed.resized_from, ReplicaCount(observed.job, api::Role::kWorker)};
  plan.events.push_back(
      {PlannedEvent::Type::kNormal, "Resized",
       fmt::format("the group's number of workers has changed from {} to {}; pods that stay are "
                   "not started again",
                   plan.resize->from, plan.resize->to)});
}

// The next plan deletes them. If the job grows again while such a pod ends, the status tells it
// from one that was lost. Each look at a pod searches the noted ones, so that thousands are noted
// in several plans.
void NoteScaledAway(const Observed& observed, Plan& plan) {
  std::vector<std::string>& noted = plan.status.counted_pods;
  for (const ObservedPod& pod : observed.pods) {
    if (noted.size() >= observed.settings.most_actions) return;
    if (!IsScaledAway(observed, pod) || IsCounted(observed, pod)) continue;
    noted.push_back(pod.uid);
    plan.status.restarts.application += ChargedRestarts(pod);  // they are lost with the pod
  }
}

}  // namespace

void AddDeletes(const Observed& observed, Plan& plan) {
  NoteScaledAway(observed, plan);
  for (const ObservedPod& pod : observed.pods) {
    if (IsScaledAway(observed, pod) && !IsCounted(observed, pod)) continue;
    if (IsStillOfGroup(observed, pod)) continue;
    const bool has_own_rule = pod.role == api::Role::kEvaluator && IsMember(observed, pod);
    if (IsObsolete(observed, pod) && !pod.being_deleted && !has_own_rule) {
      plan.actions.emplace_back(DeletePod{pod.name, pod.uid, IsUnreachable(observed, pod)});
    }
  }
  AddEvaluatorReplacement(observed, plan);
  AddForcedDeletes(observed, plan);
}

bool AddCreates(const Observed& observed, const std::vector<Replica>& wanted, Plan& plan) {
  const auto& retry = observed.job.status.next_retry_time;
  if (retry && *retry > observed.now) {
    RequeueWithin(plan, *retry - observed.now);
    return false;
  }
  if (MustWaitForOldMembers(observed)) return false;
  if (!observed.has_service) {
    if (!HasConflict(observed, observed.job.metadata.name)) {
      plan.actions.emplace_back(CreateService{});
    } else if (NeedsService(observed.job)) {
      return false;
    }
  }
  if (!AddPodGroup(observed, plan)) return false;
  bool complete = true;
  std::vector<CreatePod> pods;
  std::map<api::Role, std::size_t> planned;
  const bool must_ask_first = MustAskFirst(observed);
  const bool has_token = HasToken(observed);
  const bool has_policy = HasNetworkPolicy(observed);
  for (const Replica& replica : wanted) {
    if (FindPod(observed, replica) != nullptr) continue;
    complete = false;
    // No more of a role can be created before the job is observed again.
    if (planned[replica.role] > observed.settings.most_actions) continue;
    if (IsNameTaken(observed, replica)) continue;
    if (must_ask_first && replica.role == api::Role::kWorker) continue;
    if (replica.role == api::Role::kEvaluator &&
        (IsEvaluatorGone(observed) || MustEvaluatorWait(observed, plan))) {
      continue;
    }
    ++planned[replica.role];
    pods.push_back(
        {replica.role, replica.index, observed.job.status.attempt, has_token, has_policy});
  }
  if (!pods.empty()) {
    AddGuards(observed, plan);
    const std::optional<TrainerImages> images = PeersImages(observed);
    const bool without_gang = IsOutsideGang(observed);
    for (CreatePod& pod : pods) {
      pod.trainer_images = images;
      pod.without_gang = without_gang;
    }
  }
  plan.actions.insert(plan.actions.end(), pods.begin(), pods.end());
  return complete;
}

std::optional<Plan> PlanRunning(const Observed& observed) {
  Plan plan;
  plan.status = BaseStatus(observed);
  AddDeletes(observed, plan);
  if (!AddStartedRoles(observed, plan)) {
    const bool complete = AddCreates(observed, StartedReplicas(observed.job), plan);
    if (complete) plan.status.next_retry_time.reset();
  }
  UpdateRunning(observed, plan);
  AddResize(observed, plan);
  AddWorkloadConditions(observed, plan);
  return plan;
}

}  // namespace lockstep::controller
