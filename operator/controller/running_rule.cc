#include "operator/controller/running_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/controller/addresses.h"
#include "operator/controller/build_pod.h"
#include "operator/controller/replicas.h"
#include "operator/controller/status.h"

namespace lockstep::controller {
namespace {

// How soon a name that another owner has is tried again.
constexpr Duration kConflictRetry = std::chrono::minutes(1);

template <typename T>
bool Contains(const std::vector<T>& values, const T& value) {
  return std::ranges::find(values, value) != values.end();
}

// True if the pod must go before its replica can be made anew.
bool IsObsolete(const Observed& observed, const ObservedPod& pod) {
  return !IsMember(observed, pod) || Contains(observed.job.status.counted_pods, pod.uid);
}

void PlanDeletes(const Observed& observed, Plan& plan) {
  for (const ObservedPod& pod : observed.pods) {
    if (IsObsolete(observed, pod) && !pod.being_deleted) {
      plan.actions.emplace_back(DeletePod{pod.name, pod.uid});
    }
  }
}

// A name is free when no pod of ours has it, whatever its attempt.
bool IsNameTaken(const Observed& observed, const Replica& replica) {
  const std::string name = PodName(observed.job, replica.role, replica.index);
  return Contains(observed.name_conflicts, name) ||
         std::ranges::any_of(observed.pods,
                             [&name](const ObservedPod& pod) { return pod.name == name; });
}

// A gang starts together: nobody is made while a member of an earlier attempt is still there.
bool MustWaitForOldMembers(const Observed& observed) {
  return std::ranges::any_of(observed.pods, [&observed](const ObservedPod& pod) {
    return pod.attempt != observed.job.status.attempt;
  });
}

bool PlanCreates(const Observed& observed, Plan& plan) {
  const auto& retry = observed.job.status.next_retry_time;
  if (retry && *retry > observed.now) {
    RequeueWithin(plan, *retry - observed.now);
    return false;
  }
  if (MustWaitForOldMembers(observed)) return false;
  if (!observed.has_service && !Contains(observed.name_conflicts, observed.job.metadata.name)) {
    plan.actions.emplace_back(CreateService{});
  }
  bool complete = true;
  for (const Replica& replica : WantedReplicas(observed.job)) {
    if (FindPod(observed, replica) != nullptr) continue;
    complete = false;
    if (IsNameTaken(observed, replica)) continue;
    plan.actions.emplace_back(CreatePod{replica.role, replica.index, observed.job.status.attempt});
  }
  return complete;
}

// An elastic job runs with its minimum; an Evaluator is nobody's peer.
bool IsRequired(const api::TrainingJob& job, const Replica& replica) {
  if (replica.role == api::Role::kEvaluator) return false;
  const bool elastic = job.spec.elastic && replica.role == api::Role::kWorker;
  return !elastic || replica.index < job.spec.elastic->min_replicas;
}

bool IsUp(const Observed& observed, const Replica& replica) {
  const ObservedPod* pod = FindPod(observed, replica);
  if (pod == nullptr || pod->being_deleted || IsObsolete(observed, *pod)) return false;
  return HasSucceeded(*pod) || (IsActive(*pod) && pod->ready);
}

std::string WhyNotRunning(const Observed& observed) {
  for (const std::string& name : observed.name_conflicts) {
    return fmt::format("an object named {} exists and belongs to another owner", name);
  }
  for (const ObservedPod& pod : observed.pods) {
    const bool stuck = pod.waiting_reason.ends_with("BackOff") ||
                       pod.waiting_reason.starts_with("Err") ||
                       pod.waiting_reason.starts_with("Create");
    if (stuck && IsMember(observed, pod)) {
      return fmt::format("{} is waiting: {}", pod.name, pod.waiting_reason);
    }
  }
  return "not all replicas are ready yet";
}

void SayRunning(const Observed& observed, Plan& plan) {
  const std::string message = "all required replicas are ready";
  SetCondition(observed, plan.status, kRunning, true, "AllReplicasReady", message);
  ClearCondition(observed, plan.status, kRestarting, "AllReplicasReady", message);
  plan.events.push_back({PlannedEvent::Type::kNormal, "Running", message});
}

void UpdateRunning(const Observed& observed, Plan& plan) {
  if (IsTrue(plan.status, kRunning)) return;  // sticky within an attempt
  const std::vector<Replica> wanted = WantedReplicas(observed.job);
  const bool up = std::ranges::all_of(wanted, [&observed](const Replica& replica) {
    return !IsRequired(observed.job, replica) || IsUp(observed, replica);
  });
  if (up && !wanted.empty()) return SayRunning(observed, plan);
  const bool conflict = !observed.name_conflicts.empty();
  const std::string why = WhyNotRunning(observed);
  if (conflict) {
    const api::Condition* before = FindCondition(observed.job.status, kRunning);
    if (before == nullptr || before->message != why) {
      plan.events.push_back({PlannedEvent::Type::kWarning, "NameConflict", why});
    }
    RequeueWithin(plan, kConflictRetry);
  }
  SetCondition(observed, plan.status, kRunning, false, conflict ? "NameConflict" : "PodsNotReady",
               why);
}

// Said once: when the job is seen for the first time.
void WarnOfOverriddenEnv(const Observed& observed, Plan& plan) {
  if (FindCondition(observed.job.status, kCreated) != nullptr) return;
  const std::vector<std::string> names = OverriddenEnv(observed.job);
  if (names.empty()) return;
  plan.events.push_back({PlannedEvent::Type::kWarning, "EnvironmentOverridden",
                         fmt::format("the pod template sets {} itself; its values are kept",
                                     fmt::join(names, ", "))});
}

// Said before pods are made: a job that says it is suspended has none.
Plan PlanResumed(const Observed& observed) {
  const std::string message = "spec.suspend is false";
  Plan plan;
  plan.status = BaseStatus(observed);
  SetCondition(observed, plan.status, kSuspended, false, "Resumed", message);
  plan.events.push_back({PlannedEvent::Type::kNormal, "Resumed", message});
  return plan;
}

}  // namespace

Plan PlanRunning(const Observed& observed) {
  if (IsTrue(observed.job.status, kSuspended)) return PlanResumed(observed);
  Plan plan;
  plan.status = BaseStatus(observed);
  WarnOfOverriddenEnv(observed, plan);
  PlanDeletes(observed, plan);
  const bool complete = PlanCreates(observed, plan);
  if (complete) plan.status.next_retry_time.reset();
  UpdateRunning(observed, plan);
  return plan;
}

}  // namespace lockstep::controller
