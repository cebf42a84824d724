#include "operator/controller/rules/parts/guards.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "api/v1/defaults.h"
#include "operator/controller/state/main_container.h"

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

// Returns a pod of the present attempt; null if there is none.
const ObservedPod* PeerOf(const Observed& observed) {
  const auto peer = std::ranges::find_if(observed.pods, [&observed](const ObservedPod& pod) {
    return pod.attempt == observed.job.status.attempt && !pod.is_gone;
  });
  return peer == observed.pods.end() ? nullptr : &*peer;
}

// Returns true if the pod has failed to get its image. ErrImagePull does not count: it may be the
// first of several tries.
bool LacksItsImage(const ObservedPod& pod) {
  static const std::set<std::string> kReasons = {"ImagePullBackOff", "ErrImageNeverPull",
                                                 "InvalidImageName"};
  return pod.phase == PodPhase::kPending && kReasons.contains(pod.waiting_reason);
}

// Returns true if the pod's containers have started. A pod can fail before that: if it is evicted,
// or if its node rejects it.
bool HasStarted(const ObservedPod& pod) {
  return pod.phase != PodPhase::kPending &&
         (pod.phase != PodPhase::kFailed || pod.termination.has_value());
}

// Returns true if the role's pods have the image of the operator that created them. This holds for
// existing pods of the present attempt too: a template changes only while the job is suspended,
// which ends the attempt.
bool UsesOperatorsImage(const api::TrainingJob& job, api::Role role) {
  const auto replicas = job.spec.replica_specs.find(role);
  return replicas != job.spec.replica_specs.end() && FindMainImage(*replicas->second.tmpl).empty();
}

}  // namespace

bool HasToken(const Observed& observed) {
  const ObservedPod* peer = PeerOf(observed);
  if (peer != nullptr) return peer->has_token;
  return observed.settings.job_tokens && WantsToken(observed.job);
}

bool HasReportBearer(const Observed& observed) {
  const ObservedPod* peer = PeerOf(observed);
  if (peer != nullptr) return !peer->report_channel.empty();
  return !observed.settings.progress_url.empty() && !api::UsesBundledTrainer(observed.job);
}

bool HasNetworkPolicy(const Observed& observed) {
  const ObservedPod* peer = PeerOf(observed);
  if (peer != nullptr) return peer->has_network_policy;
  return observed.settings.network_policies && IsIsolated(observed.job);
}

std::optional<TrainerImages> PeersImages(const Observed& observed) {
  if (!api::UsesBundledTrainer(observed.job)) return std::nullopt;
  const auto unless_current = [&observed](const TrainerImages& images) {
    return images == observed.settings.trainer_images ? std::nullopt : std::optional(images);
  };
  std::set<TrainerImages> waiting, lacked;
  for (const ObservedPod& pod : observed.pods) {
    const bool is_peer = pod.attempt == observed.job.status.attempt &&
                         !pod.trainer_images.cpu.empty() &&
                         (pod.image_is_noted || UsesOperatorsImage(observed.job, pod.role));
    if (!is_peer) continue;
    if (HasStarted(pod)) return unless_current(pod.trainer_images);
    (LacksItsImage(pod) ? lacked : waiting).insert(pod.trainer_images);
  }
  for (const TrainerImages& images : waiting) {
    if (!lacked.contains(images)) return unless_current(images);
  }
  return std::nullopt;
}

void AddGuards(const Observed& observed, Plan& plan) {
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
