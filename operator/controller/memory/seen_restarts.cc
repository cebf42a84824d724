#include "operator/controller/memory/seen_restarts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/readiness.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

bool IsThere(const ObservedPod& pod) {
  return pod.phase != PodPhase::kPending && !pod.being_deleted && !pod.node_silent_since &&
         !pod.node_is_unknown && !pod.node_is_in_outage;
}

// Returns true if a replica that the job requires, of a role that has been up, is not there now.
bool LacksReplica(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  return std::ranges::any_of(WantedReplicas(job), [&observed, &job](const Replica& replica) {
    if (!IsRequired(job, replica) || !HasBeenUp(job, replica.role)) return false;
    const ObservedPod* pod = FindPod(observed, replica);
    return pod == nullptr || !IsThere(*pod);
  });
}

// Returns true if the pod's restarts may yet be charged: also after a scale-down has removed its
// index.
bool IsCharged(const Observed& observed, const ObservedPod& pod) {
  return pod.role != api::Role::kEvaluator && !pod.is_gone &&
         pod.attempt == observed.job.status.attempt && !IsCounted(observed, pod);
}

// Excuses what is beyond backoffLimit, of restarts that this process has not seen.
void ExcuseSurplus(Observed& observed, const std::vector<std::pair<ObservedPod*, int*>>& unseen) {
  if (unseen.empty()) return;
  int charged = observed.job.status.restarts.application;
  for (const ObservedPod& pod : observed.pods) {
    if (IsCharged(observed, pod)) charged += ChargedRestarts(pod);
  }
  int surplus = charged - observed.job.spec.run_policy.backoff_limit;
  for (const auto& [pod, excused] : unseen) {
    const int of_pod = std::clamp(surplus, 0, pod->restart_count);
    *excused += of_pod;
    pod->excused_restarts += of_pod;
    surplus -= of_pod;
  }
}

}  // namespace

void SeenRestarts::NoteEnd(const Observed& observed, const ObservedPod& pod, SteadyTime now,
                           Seen& seen) {
  if (!pod.last_end || pod.termination) return;  // of a pod that has ended, it is the one before
  const EndedRun end(pod);
  if (end == seen.end) return;
  seen.end = end;
  seen.is_excused = HasUnknownEnd(*pod.last_end);
  const bool may_follow = !seen.is_excused && IsSharedWork(observed.job) &&
                          MayBeConsequence(observed.job, *pod.last_end);
  seen.since.reset();
  if (may_follow) {
    seen.since = now;  // one cause may explain those before, too
  } else {
    seen.unexplained = 0;
  }
}

void SeenRestarts::Judge(bool is_explained, SteadyTime now, Observed& observed, Seen& seen) {
  if (!seen.since) return;
  if (is_explained) {
    seen.is_excused = true;
    seen.excused += std::exchange(seen.unexplained, 0);
    return seen.since.reset();
  }
  const Duration left = *seen.since + observed.settings.settling - now;
  if (left <= Duration::zero()) {
    seen.unexplained = 0;
    return seen.since.reset();
  }
  observed.until_restarts_count = std::min(observed.until_restarts_count.value_or(left), left);
}

void SeenRestarts::Annotate(Observed& observed, SteadyTime now) {
  const Duration settling = observed.settings.settling;
  if (LacksReplica(observed)) lacked_ = now;
  const bool is_explained =
      (observed.last_cause && observed.now - *observed.last_cause <= settling) ||
      (lacked_ && now - *lacked_ <= settling);
  std::map<std::string, Seen> pods;
  std::vector<std::pair<ObservedPod*, int*>> unseen;
  for (ObservedPod& pod : observed.pods) {
    if (!IsCharged(observed, pod)) continue;
    const auto known = pods_.find(pod.uid);
    Seen& seen = pods[pod.uid];
    if (known != pods_.end()) {
      seen = known->second;
    } else {
      seen.restarts = pod.restart_count;
      if (pod.last_end) seen.end.emplace(pod);
      if (pod.restart_count > 0) unseen.emplace_back(&pod, &seen.excused);
    }
    NoteEnd(observed, pod, now, seen);
    const int restarts =
        std::max(pod.restart_count - std::exchange(seen.restarts, pod.restart_count), 0);
    if (seen.is_excused) seen.excused += restarts;
    if (seen.since) seen.unexplained += restarts;
    Judge(is_explained, now, observed, seen);
    pod.excused_restarts = seen.excused + seen.unexplained;
  }
  ExcuseSurplus(observed, unseen);
  std::swap(pods_, pods);
}

}  // namespace lockstep::controller
