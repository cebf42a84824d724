#include "operator/controller/guard_rule.h"

#include <algorithm>
#include <set>
#include <string>

#include "api/v1/defaults.h"

namespace lockstep::controller {
namespace {

bool IsIsolated(const api::TrainingJob& job) {
  const auto otherwise =
      api::UsesBundledTrainer(job) ? api::NetworkPolicy::kIsolated : api::NetworkPolicy::kNone;
  return job.spec.network_policy.value_or(otherwise) == api::NetworkPolicy::kIsolated;
}

bool WantsToken(const api::TrainingJob& job) {
  const auto otherwise =
      api::UsesBundledTrainer(job) ? api::TokenMount::kMounted : api::TokenMount::kNone;
  return job.spec.job_token.value_or(otherwise) == api::TokenMount::kMounted;
}

// A pod of the present attempt, if there is one.
const ObservedPod* PeerOf(const Observed& observed) {
  const auto peer = std::ranges::find(observed.pods, observed.job.status.attempt,
                                      [](const ObservedPod& pod) { return pod.attempt; });
  return peer == observed.pods.end() ? nullptr : &*peer;
}

// True of a pod that waits for its image, perhaps because there is no such image.
bool LacksItsImage(const ObservedPod& pod) {
  static const std::set<std::string> kReasons = {"ErrImagePull",      "ImagePullBackOff",
                                                 "ErrImageNeverPull", "InvalidImageName",
                                                 "ImageInspectError", "RegistryUnavailable"};
  return pod.phase == PodPhase::kPending && kReasons.contains(pod.waiting_reason);
}

}  // namespace

bool HasToken(const Observed& observed) {
  const ObservedPod* peer = PeerOf(observed);
  if (peer != nullptr) return peer->has_token;
  return observed.settings.job_tokens && WantsToken(observed.job);
}

bool HasNetworkPolicy(const Observed& observed) {
  const ObservedPod* peer = PeerOf(observed);
  if (peer != nullptr) return peer->has_network_policy;
  return observed.settings.network_policies && IsIsolated(observed.job);
}

std::string TrainerImage(const Observed& observed, api::Role role) {
  if (!api::UsesBundledTrainer(observed.job)) return "";
  std::set<std::string> lacked;
  std::string pending, running;
  for (const ObservedPod& pod : observed.pods) {
    // Where nothing is noted, another role's image may be the job's own.
    const bool is_peer = pod.attempt == observed.job.status.attempt && !pod.trainer_image.empty() &&
                         (pod.image_is_noted || pod.role == role);
    if (!is_peer) continue;
    if (LacksItsImage(pod)) lacked.insert(pod.trainer_image);
    (pod.phase == PodPhase::kPending ? pending : running) = pod.trainer_image;
  }
  if (lacked.contains(pending)) pending.clear();
  const std::string& image = running.empty() ? pending : running;
  return image == observed.settings.trainer_image ? "" : image;
}

void PlanGuards(const Observed& observed, Plan& plan) {
  const Settings& settings = observed.settings;
  const bool is_repeat = PeerOf(observed) != nullptr;
  if (settings.job_tokens && !observed.has_token_secret && HasToken(observed)) {
    plan.actions.emplace_back(CreateTokenSecret{is_repeat});
  }
  if (settings.network_policies && !observed.has_network_policy && HasNetworkPolicy(observed)) {
    plan.actions.emplace_back(CreateNetworkPolicy{is_repeat});
  }
}

}  // namespace lockstep::controller
