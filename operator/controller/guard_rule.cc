#include "operator/controller/guard_rule.h"

#include <algorithm>

#include "api/v1/defaults.h"

namespace lockstep::controller {
namespace {

bool IsIsolated(const api::TrainingJob& job) {
  const auto otherwise =
      api::UsesBundledTrainer(job) ? api::NetworkPolicy::kIsolated : api::NetworkPolicy::kNone;
  return job.spec.network_policy.value_or(otherwise) == api::NetworkPolicy::kIsolated;
}

}  // namespace

bool HasToken(const Observed& observed) {
  if (!api::UsesBundledTrainer(observed.job)) return false;
  const auto peer = std::ranges::find(observed.pods, observed.job.status.attempt,
                                      [](const ObservedPod& pod) { return pod.attempt; });
  return peer == observed.pods.end() ? observed.settings.job_tokens : peer->has_token;
}

void PlanGuards(const Observed& observed, Plan& plan) {
  const Settings& settings = observed.settings;
  if (settings.job_tokens && !observed.has_token_secret && HasToken(observed)) {
    plan.actions.emplace_back(CreateTokenSecret{});
  }
  if (settings.network_policies && !observed.has_network_policy && IsIsolated(observed.job)) {
    plan.actions.emplace_back(CreateNetworkPolicy{});
  }
}

}  // namespace lockstep::controller
