#include "operator/controller/rules/parts/pod_failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/strategy_traits.h"
#include "operator/controller/rules/parts/lost_pods.h"
#include "operator/controller/rules/parts/readiness.h"

namespace lockstep::controller {
namespace {

// The reasons that a kubelet or node controller gives for ends that the program did not cause. A
// kubelet may refuse a pod for a taint or a label that only its copy of the node still has, or for
// a port that another pod is about to give back. "Evicted" is not among them: a kubelet also evicts
// a pod that exceeds its own storage limits, and sets the condition DisruptionTarget only if the
// node was short of a resource.
constexpr std::string_view kDisruptionReasons[] = {"Preempting",
                                                   "Preempted",
                                                   "Shutdown",
                                                   "NodeShutdown",
                                                   "Terminated",
                                                   "NodeLost",
                                                   "NodeAffinity",
                                                   "TaintToleration",
                                                   "NodePorts",
                                                   "InvalidNodeInfo",
                                                   "UnexpectedAdmissionError",
                                                   "TopologyAffinityError"};

// The kubelet's prefix for a pod that its node has no room for: OutOfcpu, OutOfnvidia.com/gpu.
constexpr std::string_view kNoRoomPrefix = "OutOf";

bool IsNewPodFailure(const Observed& observed, const ObservedPod& pod) {
  if (!IsMember(observed, pod) || PodSucceeded(pod)) return false;
  if (!PodFailed(pod) && !pod.being_deleted && !IsUnreachable(observed, pod)) return false;
  return !IsCounted(observed, pod);
}

// A container ended before its pod was deleted if its end is earlier by this much. The kubelet sets
// the time of the end and the API server that of the deletion, each by its own clock.
constexpr Duration kClockDifference = std::chrono::seconds(5);

// A failure before the deletion is still charged. If this process has seen the failure before the
// deletion, that is certain. If it has seen both at once, their times decide; if these are close,
// the deletion counts as first, since a program that ends because it is deleted must not fail its
// job.
bool EndedBeforeItsDeletion(const ObservedPod& pod) {
  if (pod.failed_since && pod.deleting_since && *pod.failed_since < *pod.deleting_since) {
    return true;
  }
  return pod.deletion && pod.termination && pod.termination->finished_at &&
         *pod.termination->finished_at + kClockDifference < pod.deletion->RequestedAt();
}

// Returns true if the pod was lost to something other than its program: it was preempted, drained,
// evicted because the node was short of something, or deleted.
bool WasDisrupted(const ObservedPod& pod) {
  const bool named =
      std::ranges::find(kDisruptionReasons, pod.reason) != std::end(kDisruptionReasons) ||
      pod.reason.starts_with(kNoRoomPrefix);
  const bool deleted = pod.being_deleted && !EndedBeforeItsDeletion(pod);
  return pod.disruption_target || deleted || named ||
         (pod.termination && HasUnknownEnd(*pod.termination));
}

PodFailure FailureOfPod(const Observed& observed, const ObservedPod& pod, bool node_is_lost) {
  const bool is_own = PodFailed(pod) && !node_is_lost && !WasDisrupted(pod) && !WasEndedByNode(pod);
  return {.pod = &pod,
          .replica = {pod.role, pod.index},
          .cause = node_is_lost ? PodFailureCause::kDisruption : Classify(observed.job, pod),
          .rule = FindFailureRule(observed.job, {&pod, is_own, node_is_lost ? kNodeLost : ""})};
}

PodFailure FailureOfPod(const Observed& observed, const ObservedPod& pod) {
  return FailureOfPod(observed, pod, !PodFailed(pod) && IsUnreachable(observed, pod));
}

// A gang that has run cannot take in a replacement for a member whose pod is gone without a trace;
// nor can a role of it that works while others wait. Some workers of an elastic gang may never have
// existed, whatever its minimum is by now.
void AddVanished(const Observed& observed, std::vector<PodFailure>& failures) {
  if (observed.job.spec.restart_scope != api::RestartScope::kGang) return;
  // One replica that is up is enough for these: others may never have had a pod, and none is missed
  // by its peers.
  if (api::TraitsOf(observed.job.spec).trains_alone) return;
  int gone = observed.gone_workers.empty() ? CountGoneWorkers(observed) : 0;
  for (const Replica& replica : WantedReplicas(observed.job)) {
    const auto known = observed.job.status.replica_statuses.find(replica.role);
    const bool is_new = known == observed.job.status.replica_statuses.end() ||
                        replica.index >= known->second.desired;
    if (replica.role == api::Role::kEvaluator || is_new) continue;
    if (!HasBeenUp(observed.job, replica.role)) continue;
    if (FindPod(observed, replica) != nullptr) continue;
    if (observed.job.spec.elastic && replica.role == api::Role::kWorker) {
      const bool was_seen = std::ranges::binary_search(observed.gone_workers, replica.index);
      if (!was_seen && gone-- <= 0) continue;
    }
    failures.push_back({nullptr, replica, PodFailureCause::kDisruption});
  }
}

// How long a leading replica may take to end after its peers, who leave when all have finished: it
// waits for their goodbyes for at most 10 s. If it waits for a finished peer, it reports so at the
// next poll; without polls, the time must allow for a slow kubelet.
constexpr Duration kLeadersEnd = std::chrono::seconds(15);
constexpr Duration kUnaskedLeadersEnd = std::chrono::minutes(1);

// The leading replica's peers that have finished, and how long this process has known.
struct Finished {
  bool any = false, awaited = false;  // awaited: the leading replica reports that it waits for one
  Duration known = Duration::zero();
};

Finished FinishedPeers(const Observed& observed) {
  Finished finished;
  const api::TrainingJob& job = observed.job;
  if (!api::UsesBundledTrainer(job) || !IsSharedWork(job)) return finished;
  for (const Replica& replica : AllReplicas(job)) {
    if (replica == LeadingReplica(job) || replica.role == api::Role::kEvaluator) continue;
    const ObservedPod* pod = FindPod(observed, replica);
    const bool succeeded = pod != nullptr && PodSucceeded(*pod);
    if (!succeeded && !ReplicaCompleted(job, replica)) continue;  // its pod may be gone
    finished.any = true;
    const std::vector<std::string>& awaited = observed.group.awaited;
    if (std::ranges::find(awaited, Describe(replica)) != awaited.end()) finished.awaited = true;
    Time since = observed.first_seen;
    if (succeeded) {
      since = pod->succeeded_since.value_or(observed.now);
    } else if (replica.role == api::Role::kWorker) {
      const auto seen = observed.completed_since.find(replica.index);
      if (seen != observed.completed_since.end()) since = seen->second;
    }
    finished.known = std::max(finished.known, observed.now - since);
  }
  return finished;
}

// Returns the leading replica's pod if it should have ended but still runs; else null.
const ObservedPod* OutlivingLeader(const Observed& observed) {
  const ObservedPod* pod = FindPod(observed, LeadingReplica(observed.job));
  if (pod == nullptr || !IsActive(*pod) || IsNewPodFailure(observed, *pod)) return nullptr;
  // Whether a pod on a silent node has ended is unknown: see IsUnreachable.
  return IsCounted(observed, *pod) || pod->node_silent_since ? nullptr : pod;
}

// Adds a leading replica whose container was restarted, or that was lost before its peers were seen
// to finish. The original failure has been charged, so this one is free.
void AddStranded(const Observed& observed, std::vector<PodFailure>& failures) {
  const ObservedPod* pod = OutlivingLeader(observed);
  if (pod == nullptr || observed.until_stranded != Duration::zero()) return;
  failures.push_back({pod, {pod->role, pod->index}, PodFailureCause::kDisruption});
}

// Returns true if a program that has lost a peer may exit with the code.
bool IsExitAfterPeer(const api::TrainingJob& job, int code) {
  if (api::UsesBundledTrainer(job)) {
    return code == api::kExitPeerLost || code == api::kExitRendezvousDeadline;
  }
  return code >= 1 && code <= 127;
}

Time EndOf(const Observed& observed, const PodFailure& failure) {
  const bool known = failure.pod != nullptr && failure.pod->termination;
  return known ? failure.pod->termination->finished_at.value_or(observed.now) : observed.now;
}

bool IsHealthy(const Observed& observed, const ObservedPod& pod) {
  return IsMember(observed, pod) && IsActive(pod) && pod.phase == PodPhase::kRunning &&
         !pod.being_deleted && !IsCounted(observed, pod) && !pod.node_silent_since &&
         !pod.node_is_unknown && !pod.node_is_in_outage;
}

// Adds the pods that look healthy, but whose processes have not left a generation that is over, as
// the leading pod has told, while members have ended because they waited for them in vain. Without
// this, the hung ones would stay, and the others be charged for them each time. Adds none if
// something else explains those ends.
void AddHung(const Observed& observed, std::vector<PodFailure>& failures) {
  const bool is_given_up =
      api::UsesBundledTrainer(observed.job) && !failures.empty() &&
      std::ranges::all_of(failures, [&observed](const PodFailure& failure) {
        return failure.pod != nullptr && MayBeConsequence(observed.job, failure) &&
               failure.pod->termination->exit_code == api::kExitRendezvousDeadline;
      });
  if (!is_given_up) return;
  for (const ObservedPod& pod : observed.pods) {
    const std::string name = Describe(Replica{pod.role, pod.index});
    const auto hung = std::ranges::find(observed.group.hung, name, &Straggler::replica);
    if (hung == observed.group.hung.end() || !IsHealthy(observed, pod)) continue;
    failures.push_back(
        {.pod = &pod,
         .replica = {pod.role, pod.index},
         .cause = Classify(observed.job, pod),
         .rule = FindFailureRule(observed.job, {.pod = &pod, .found = kReplicaHung}),
         .stall = fmt::format("{} hangs: its group has waited for rank {} in vain, which {}", name,
                              hung->rank, hung->doing),
         .stall_reason = kReplicaHung});
  }
}

// A replica that ends by itself while a peer's node is silent has lost that peer.
void AddSilent(const Observed& observed, std::vector<PodFailure>& failures) {
  const bool may_be_why = std::ranges::any_of(failures, [&observed](const PodFailure& failure) {
    return MayBeConsequence(observed.job, failure);
  });
  if (!may_be_why || !IsSharedWork(observed.job)) return;
  for (const ObservedPod& pod : observed.pods) {
    if (!pod.node_silent_since || !IsMember(observed, pod) || !IsActive(pod)) continue;
    if (pod.role == api::Role::kEvaluator || IsNewPodFailure(observed, pod)) continue;
    if (IsCounted(observed, pod)) continue;
    failures.push_back(FailureOfPod(observed, pod, true));
  }
}

}  // namespace

int CountGoneWorkers(const Observed& observed) {
  const api::TrainingJobStatus& status = observed.job.status;
  const auto known = status.replica_statuses.find(api::Role::kWorker);
  if (known == status.replica_statuses.end()) return 0;
  // Workers that were scaled away have not vanished.
  if (known->second.desired != ReplicaCount(observed.job, api::Role::kWorker)) return 0;
  const auto there = std::ranges::count_if(observed.pods, [&observed](const ObservedPod& pod) {
    return pod.role == api::Role::kWorker && MayHaveStarted(pod) && !IsObsolete(observed, pod) &&
           !ReplicaCompleted(observed.job, {pod.role, pod.index});
  });
  return known->second.ready - static_cast<int>(there);
}

PodFailureCause CountsAs(const PodFailure& failure) {
  if (!failure.rule) return failure.cause;
  switch (failure.rule->action) {
    case api::FailureAction::kFailJob:
      return PodFailureCause::kPermanent;
    case api::FailureAction::kIgnore:
      return PodFailureCause::kDisruption;
    case api::FailureAction::kCount:
      break;
  }
  return PodFailureCause::kApplication;
}

bool HasUnknownEnd(const Termination& end) {
  return end.reason == "ContainerStatusUnknown" ||
         (end.reason == "Unknown" && end.exit_code == 255);
}

int ChargedRestarts(const ObservedPod& pod) {
  return std::max(pod.restart_count - pod.excused_restarts, 0);
}

bool IsSharedWork(const api::TrainingJob& job) {
  if (api::TraitsOf(job.spec).trains_alone) return false;
  return NodeCount(job) + ReplicaCount(job, api::Role::kParameterServer) > 1;
}

bool MayBeConsequence(const api::TrainingJob& job, const PodFailure& failure) {
  if (failure.pod == nullptr || !failure.pod->termination) return false;
  const Termination& end = *failure.pod->termination;
  if (failure.cause == PodFailureCause::kDisruption || WasEndedByNode(*failure.pod)) return false;
  return MayBeConsequence(job, end);
}

bool MayBeConsequence(const api::TrainingJob& job, const Termination& end) {
  if (end.signal != 0 || end.reason == "OOMKilled") return false;
  return IsExitAfterPeer(job, end.exit_code);
}

bool MayBeConsequence(const api::TrainingJob& job, const api::Failure& failure) {
  // Most runtimes give one for a program that ended by itself with another code than 0.
  const bool is_own = failure.reason.empty() || failure.reason == "Error";
  return is_own && IsExitAfterPeer(job, failure.exit_code);
}

bool StartsAgainAfterSuccess(const PodFailure& failure) {
  if (failure.pod == nullptr || failure.cause == PodFailureCause::kDisruption) return false;
  const ObservedPod& pod = *failure.pod;
  return pod.starts_again && ProgramSucceeded(pod);
}

std::vector<PodFailure> NewPodFailures(const Observed& observed) {
  std::vector<PodFailure> failures;
  for (const ObservedPod& pod : observed.pods) {
    if (pod.role == api::Role::kEvaluator || !IsNewPodFailure(observed, pod)) continue;
    failures.push_back(FailureOfPod(observed, pod));
  }
  AddVanished(observed, failures);
  AddStranded(observed, failures);
  AddSilent(observed, failures);
  AddHung(observed, failures);
  // Earliest first: later ends are often its consequence.
  std::ranges::stable_sort(
      failures, {}, [&observed](const PodFailure& failure) { return EndOf(observed, failure); });
  return failures;
}

std::optional<PodFailure> NewEvaluatorFailure(const Observed& observed) {
  const ObservedPod* pod = FindPod(observed, {api::Role::kEvaluator, 0});
  if (pod == nullptr || !IsNewPodFailure(observed, *pod)) return std::nullopt;
  return FailureOfPod(observed, *pod);
}

bool LeadsFinishedPeers(const Observed& observed, const Replica& replica) {
  return replica == LeadingReplica(observed.job) && FinishedPeers(observed).any;
}

std::optional<Duration> UntilStranded(const Observed& observed) {
  if (OutlivingLeader(observed) == nullptr) return std::nullopt;
  const Finished finished = FinishedPeers(observed);
  if (!finished.any) return std::nullopt;
  const Duration allowed = finished.awaited ? kLeadersEnd : kUnaskedLeadersEnd;
  return std::max(allowed - finished.known, Duration::zero());
}

std::optional<Duration> UntilLeaderFails(const Observed& observed) {
  return observed.until_stranded > Duration::zero() ? observed.until_stranded : std::nullopt;
}

bool IsCounted(const Observed& observed, const ObservedPod& pod) {
  const std::vector<std::string>& counted = observed.job.status.counted_pods;
  return std::ranges::find(counted, pod.uid) != counted.end();
}

bool SuccessCounts(const Observed& observed, const ObservedPod& pod) {
  if (!PodSucceeded(pod)) return false;
  return !IsCounted(observed, pod) || api::UsesBundledTrainer(observed.job);
}

PodFailureCause Classify(const api::TrainingJob& job, const ObservedPod& pod) {
  if (WasDisrupted(pod)) return PodFailureCause::kDisruption;
  const auto policy = job.spec.replica_specs.at(pod.role).restart_policy;
  switch (policy.value_or(api::RestartPolicy::kExitCode)) {
    case api::RestartPolicy::kNever:
      return PodFailureCause::kPermanent;
    case api::RestartPolicy::kAlways:
    case api::RestartPolicy::kOnFailure:
      return PodFailureCause::kApplication;
    case api::RestartPolicy::kExitCode:
      break;
  }
  // A pod that failed without its main container's exit code deserves another try. So does a
  // program whose exit code says that it was told to end.
  const bool retryable = !pod.termination || WasEndedByNode(pod) ||
                         api::IsRetryableExitCode(pod.termination->exit_code);
  return retryable ? PodFailureCause::kApplication : PodFailureCause::kPermanent;
}

}  // namespace lockstep::controller
