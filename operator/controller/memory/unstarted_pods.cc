#include "operator/controller/memory/unstarted_pods.h"

#include <algorithm>
#include <variant>

#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

constexpr int kUnbounded = 2;  // creates that need not wait: the first pod's and its replacement's

}  // namespace

SteadyTime UnstartedPods::DueOf(const Created& created, const kube::BackoffPolicy& backoff) {
  if (created.times < kUnbounded) return created.last;
  return created.last + kube::BackoffDelay(backoff, created.times - kUnbounded + 1, 0.0);
}

std::optional<Replica> UnstartedPods::UpdateDeleted(const Observed& observed) {
  const int attempt = observed.job.status.attempt;
  if (attempt_ != attempt) created_.clear();
  attempt_ = attempt;
  if (created_.empty()) return std::nullopt;
  std::erase_if(created_, [&observed](const auto& entry) {
    return entry.first.index >= ReplicaCount(observed.job, entry.first.role);
  });
  for (const ObservedPod& pod : observed.pods) {
    if (IsMember(observed, pod) && pod.phase != PodPhase::kPending) {
      created_.erase({pod.role, pod.index});
    }
  }
  const auto found = std::ranges::find_if(
      created_, [](const auto& entry) { return entry.second.times > kUnbounded; });
  return found == created_.end() ? std::nullopt : std::optional(found->first);
}

void UnstartedPods::RecordCreated(const Replica& replica, SteadyTime now) {
  Created& created = created_[replica];
  ++created.times;
  created.last = now;
}

void UnstartedPods::Bound(Plan& plan, SteadyTime now, const kube::BackoffPolicy& backoff) const {
  if (created_.empty()) return;
  std::erase_if(plan.actions, [&](const Action& action) {
    const auto* pod = std::get_if<CreatePod>(&action);
    if (pod == nullptr) return false;
    const auto found = created_.find({pod->role, pod->index});
    if (found == created_.end()) return false;
    const SteadyTime due = DueOf(found->second, backoff);
    if (due <= now) return false;
    RequeueWithin(plan, due - now);
    return true;
  });
}

}  // namespace lockstep::controller
