#include "operator/controller/memory/failed_actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <variant>

#include "operator/controller/state/call_outcome.h"

namespace lockstep::controller {
namespace {

// A job has one of each kind of object except pods. To suspend it is one thing, and to resume it or
// to set its number of workers another: a policy may refuse only one of them.
std::string NameOf(const Action& action) {
  if (const auto* set = std::get_if<SetSuspend>(&action)) {
    return fmt::format("{}/{}", action.index(), set->suspend);
  }
  const auto* pod = std::get_if<DeletePod>(&action);
  if (pod == nullptr) return std::to_string(action.index());
  return fmt::format("{}/{}{}", action.index(), pod->uid, pod->force ? " by force" : "");
}

}  // namespace

void FailedActions::Record(const Action& action, const absl::Status& end, SteadyTime now,
                           const kube::BackoffPolicy& backoff) {
  if (end.ok()) {
    failures_.erase(NameOf(action));
    return;
  }
  Failure& failure = failures_[NameOf(action)];
  failure.retry_at = now + kube::BackoffDelay(backoff, ++failure.count, 0.0);
  const bool is_delete = KindOf(action) == ActionKind::kDelete;
  failure.fault = {is_delete ? "DeleteFailed" : "UpdateFailed", std::string(end.message())};
  failure.is_refusal = IsRefusal(end);
}

bool FailedActions::IsRefused(const Action& action) const {
  const auto failure = failures_.find(NameOf(action));
  return failure != failures_.end() && failure->second.is_refusal;
}

bool FailedActions::IsFailing(const Action& action) const {
  const auto failure = failures_.find(NameOf(action));
  return failure != failures_.end() && failure->second.IsLasting();
}

int FailedActions::CountOf(const Action& action) const {
  const auto failure = failures_.find(NameOf(action));
  return failure == failures_.end() ? 0 : failure->second.count;
}

void FailedActions::Bound(Plan& plan, SteadyTime now) {
  if (failures_.empty()) return;
  std::set<std::string> planned;
  for (const Action& action : plan.actions) planned.insert(NameOf(action));
  const auto fault = Fault();
  std::erase_if(failures_, [&](const auto& entry) {
    return entry.second.retry_at <= now && !planned.contains(entry.first);
  });
  // The plan reports a fault that no longer exists.
  if (Fault() != fault) RequeueWithin(plan, Duration::zero());
  for (const auto& [name, failure] : failures_) {
    if (failure.retry_at > now) RequeueWithin(plan, failure.retry_at - now);
  }
  std::erase_if(plan.actions, [&](const Action& action) {
    const auto failure = failures_.find(NameOf(action));
    return failure != failures_.end() && failure->second.retry_at > now;
  });
  std::ranges::stable_sort(plan.actions, {},
                           [this](const Action& action) { return CountOf(action); });
}

std::optional<ActionFault> FailedActions::Fault() const {
  for (const auto& [name, failure] : failures_) {
    if (failure.IsLasting()) return failure.fault;
  }
  return std::nullopt;
}

}  // namespace lockstep::controller
