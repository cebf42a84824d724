#include "operator/controller/memory/failed_creates.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace lockstep::controller {

CreateGroup GroupOf(const Action& create) {
  const auto* pod = std::get_if<CreatePod>(&create);
  return pod == nullptr ? std::nullopt : CreateGroup(pod->role);
}

bool CreateOutcomes::Begin(CreateGroup group) {
  const std::lock_guard lock(mutex_);
  if (is_stopped_ || failed_.contains(std::nullopt) || failed_.contains(group)) return false;
  tried_.insert(group);
  return true;
}

void CreateOutcomes::Fail(CreateGroup group) {
  const std::lock_guard lock(mutex_);
  tried_.insert(group);
  failed_.insert(group);
}

void CreateOutcomes::Stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
}

void CreateOutcomes::Explain(CreateGroup group, CreateFault fault) {
  const std::lock_guard lock(mutex_);
  faults_.emplace(group, std::move(fault));
}

void FailedCreates::Record(CreateOutcomes& outcomes, SteadyTime now,
                           const kube::BackoffPolicy& backoff) {
  const std::lock_guard lock(outcomes.mutex_);
  // Pods were tried, so what they need is there, whoever has created it.
  const CreateGroup all;
  if (!outcomes.tried_.empty() && !outcomes.failed_.contains(all)) failures_.erase(all);
  for (const CreateGroup& group : outcomes.tried_) {
    if (!outcomes.failed_.contains(group)) {
      failures_.erase(group);
      continue;
    }
    Failure& failure = failures_[group];
    failure.retry_at = now + kube::BackoffDelay(backoff, ++failure.count, 0.0);
    const auto fault = outcomes.faults_.find(group);
    const bool is_reported =
        fault != outcomes.faults_.end() && (fault->second.is_refusal || failure.count > 1);
    failure.fault = is_reported ? std::optional(fault->second) : std::nullopt;
  }
}

void FailedCreates::Bound(Plan& plan, SteadyTime now) {
  if (failures_.empty()) return;
  const auto fault = Fault();
  std::erase_if(failures_, [&](const auto& entry) {
    const auto& [group, failure] = entry;
    return failure.retry_at <= now && std::ranges::none_of(plan.actions, [&](const Action& action) {
             return IsCreate(action) && (!group || GroupOf(action) == group);
           });
  });
  // The plan reports a fault that no longer exists.
  if (Fault() != fault) RequeueWithin(plan, Duration::zero());
  std::erase_if(plan.actions, [&](const Action& action) {
    if (!IsCreate(action)) return false;
    bool must_wait = false;
    for (const CreateGroup& group : {CreateGroup(), GroupOf(action)}) {
      const auto failure = failures_.find(group);
      if (failure == failures_.end() || failure->second.retry_at <= now) continue;
      RequeueWithin(plan, failure->second.retry_at - now);
      must_wait = true;
    }
    return must_wait;
  });
}

std::optional<CreateFault> FailedCreates::Fault() const {
  std::optional<CreateFault> first;
  for (const auto& [group, failure] : failures_) {
    if (!failure.fault) continue;
    if (failure.fault->invalid_pod) return failure.fault;
    if (!first) first = failure.fault;
  }
  return first;
}

}  // namespace lockstep::controller
