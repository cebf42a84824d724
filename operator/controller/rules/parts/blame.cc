#include "operator/controller/rules/parts/blame.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "api/v1/defaults.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// Returns true if the bundled trainer's replicas must wait for a required replica whose pod does
// not exist, is being deleted, has not started, or is on a silent node. A failed pod does not
// count.
bool LacksMember(const Observed& observed) {
  if (!api::UsesBundledTrainer(observed.job)) return false;
  return std::ranges::any_of(RequiredPods(observed), [](const ObservedPod* pod) {
    if (pod == nullptr || pod->being_deleted || pod->node_silent_since) return true;
    return IsActive(*pod) && pod->phase == PodPhase::kPending;
  });
}

// Returns true if a cause was charged, or seen, within the last Settings::settling. Always false
// with the scope Gang: a charged cause restarts the whole gang, so its next failures have another
// cause.
bool HasRecentCause(const Observed& observed) {
  if (observed.job.spec.restart_scope == api::RestartScope::kGang) return false;
  if (observed.last_cause) return observed.now - *observed.last_cause <= observed.settings.settling;
  // If the cause is an older one, a failure that comes shortly after the change of the operator is
  // free once; to fail the job for a peer's end instead could not be undone.
  return observed.had_cause && observed.now - observed.first_seen <= observed.settings.settling;
}

// Returns true if a member's node may be lost, though its pod is not replaced for that yet. A peer
// that ends meanwhile has probably lost that member.
bool MayLackMember(const Observed& observed) {
  return std::ranges::any_of(observed.pods, [&observed](const ObservedPod& pod) {
    const bool may_be_lost = pod.node_is_unknown || pod.node_is_in_outage;
    return may_be_lost && pod.role != api::Role::kEvaluator && IsMember(observed, pod) &&
           IsActive(pod);
  });
}

// Returns true if something is known that explains peers' ends, apart from new failures.
bool IsExplained(const Observed& observed) {
  return HasRecentCause(observed) || LacksMember(observed) || MayLackMember(observed);
}

// Considers only failures that cannot be consequences. Returns the earliest disruption,
// else the earliest failure; null if there is none.
const PodFailure* FindCause(const api::TrainingJob& job, const std::vector<PodFailure>& failures) {
  const PodFailure* cause = nullptr;
  for (const PodFailure& failure : failures) {
    if (MayBeConsequence(job, failure)) continue;
    const bool is_better = cause == nullptr || (cause->cause != PodFailureCause::kDisruption &&
                                                failure.cause == PodFailureCause::kDisruption);
    if (is_better) cause = &failure;
  }
  return cause;
}

// Returns the failure that the earliest rule of the job lists, else the first one that a rule is
// about; null if there is none. Of several, the earliest end. A program whose user says what its
// exit code means has told why it ended, and those of other exit codes have not. The order of the
// rules comes before that of the ends: peers end in the same second, and a rule for their codes
// must not hide one that the user has put before it.
const PodFailure* FindNamedByRule(const std::vector<PodFailure>& failures) {
  constexpr std::size_t kUnlisted = std::numeric_limits<std::size_t>::max();
  const PodFailure* named = nullptr;
  std::size_t place = kUnlisted;
  for (const PodFailure& failure : failures) {
    if (!failure.rule) continue;
    const std::size_t its_place = failure.rule->is_listed ? failure.rule->index : kUnlisted;
    if (named != nullptr && its_place >= place) continue;
    named = &failure;
    place = its_place;
  }
  return named;
}

}  // namespace

bool MayHaveCause(const api::TrainingJob& job) {
  const std::optional<api::Failure>& failure = job.status.failure;
  if (!failure) return false;
  return failure->role == api::RoleName(api::Role::kEvaluator) || !MayBeConsequence(job, *failure);
}

Blame FindBlame(const Observed& observed, const std::vector<PodFailure>& failures) {
  Blame blame{.first = &failures.front(), .job = &observed.job};
  if (IsSharedWork(observed.job)) {
    const PodFailure* cause = FindCause(observed.job, failures);
    blame.has_cause = cause != nullptr || IsExplained(observed);
    if (!blame.has_cause) {
      blame.by_rule = cause = FindNamedByRule(failures);
      blame.has_cause = cause != nullptr;
    }
    if (cause != nullptr) blame.first = cause;
    blame.is_incident = api::UsesBundledTrainer(observed.job);  // its supervisors exit together
    blame.is_free = std::ranges::all_of(
        failures, [&blame](const PodFailure& failure) { return blame.Explains(failure); });
  }
  blame.first_may_be_consequence =
      blame.first != blame.by_rule && MayBeConsequence(observed.job, *blame.first);
  return blame;
}

std::optional<Duration> UntilSettled(const Observed& observed,
                                     const std::vector<PodFailure>& failures) {
  const api::TrainingJob& job = observed.job;
  if (!IsSharedWork(job) || job.spec.restart_scope == api::RestartScope::kInPlace) {
    return std::nullopt;
  }
  const bool all_may_follow = std::ranges::all_of(
      failures, [&job](const PodFailure& failure) { return MayBeConsequence(job, failure); });
  if (!all_may_follow || IsExplained(observed)) return std::nullopt;
  // The cause may yet show: a pod that still counts as running may have been lost first.
  const bool may_learn = std::ranges::any_of(observed.pods, [&observed](const ObservedPod& pod) {
    return IsMember(observed, pod) && pod.role != api::Role::kEvaluator && IsActive(pod);
  });
  if (!may_learn) return std::nullopt;
  Time since = observed.now;
  for (const PodFailure& failure : failures)
    since = std::min(since, failure.pod->failed_since.value_or(since));
  const Duration left = since + observed.settings.settling - observed.now;
  return left > Duration::zero() ? std::optional(left) : std::nullopt;
}

const PodFailure* FindPermanent(const std::vector<PodFailure>& failures, const Blame& blame) {
  for (const PodFailure& failure : failures) {
    if (CountsAs(failure) != PodFailureCause::kPermanent) continue;
    if (!blame.Explains(failure)) return &failure;
  }
  return nullptr;
}

}  // namespace lockstep::controller
