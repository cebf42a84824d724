#include "operator/controller/rules/pod_failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "base/shorten.h"
#include "operator/controller/rules/lost_pod_rule.h"
#include "operator/controller/rules/status.h"

namespace lockstep::controller {
namespace {

// What a kubelet or a node controller calls an end that is not the program's doing. "Evicted" is
// not among them: a kubelet also evicts a pod that has used more storage than its own limits allow,
// and sets the condition DisruptionTarget only where the node was short of something.
constexpr std::string_view kDisruptionReasons[] = {
    "Preempting",           "Preempted", "Shutdown",     "NodeShutdown",
    "Terminated",           "NodeLost",  "NodeAffinity", "UnexpectedAdmissionError",
    "TopologyAffinityError"};

// A kubelet's word for a pod that its node has no room for: OutOfcpu, OutOfnvidia.com/gpu.
constexpr std::string_view kNoRoomPrefix = "OutOf";

bool IsCounted(const Observed& observed, const ObservedPod& pod) {
  const std::vector<std::string>& counted = observed.job.status.counted_pods;
  return std::ranges::find(counted, pod.uid) != counted.end();
}

bool IsNewPodFailure(const Observed& observed, const ObservedPod& pod) {
  if (!IsMember(observed, pod) || HasSucceeded(pod)) return false;
  if (!HasFailed(pod) && !pod.being_deleted && !IsUnreachable(observed, pod)) return false;
  return !IsCounted(observed, pod);
}

// How many workers had a pod when the status last counted them, had not finished, and have none
// now: all that a process knows that has just started. A count may be a little old, but none is of
// a pod that never was.
int CountGoneWorkers(const Observed& observed) {
  const api::TrainingJobStatus& status = observed.job.status;
  const auto known = status.replica_statuses.find(api::Role::kWorker);
  if (known == status.replica_statuses.end()) return 0;
  // Those that were scaled away have not vanished.
  if (known->second.desired != ReplicaCount(observed.job, api::Role::kWorker)) return 0;
  const auto there = std::ranges::count_if(observed.pods, [&observed](const ObservedPod& pod) {
    return pod.role == api::Role::kWorker && IsMember(observed, pod) &&
           !HasCompleted(observed.job, {pod.role, pod.index});
  });
  return known->second.active + known->second.failed - static_cast<int>(there);
}

// A gang that has run cannot take a new member in place of one whose pod is gone without a trace.
// Of an elastic one's workers some may never have been there, whatever its minimum is by now.
void AddVanished(const Observed& observed, std::vector<PodFailure>& losses) {
  if (observed.job.spec.restart_scope != api::RestartScope::kGang) return;
  if (!IsTrue(observed.job.status, kRunning)) return;
  int gone = observed.gone_workers.empty() ? CountGoneWorkers(observed) : 0;
  for (const Replica& replica : WantedReplicas(observed.job)) {
    const auto known = observed.job.status.replica_statuses.find(replica.role);
    const bool is_new = known == observed.job.status.replica_statuses.end() ||
                        replica.index >= known->second.desired;
    if (replica.role == api::Role::kEvaluator || is_new) continue;
    if (FindPod(observed, replica) != nullptr) continue;
    if (observed.job.spec.elastic && replica.role == api::Role::kWorker) {
      const bool was_seen = std::ranges::binary_search(observed.gone_workers, replica.index);
      if (!was_seen && gone-- <= 0) continue;
    }
    losses.push_back({nullptr, replica, PodFailureCause::kDisruption});
  }
}

// What a leading replica gets to end after its peers, who leave when all have finished: it waits
// for their goodbyes for 10 s at most. One that waits for a peer that has finished says so when it
// is next asked; of one that is not asked, the time must allow for a kubelet that is slow to tell.
constexpr Duration kLeadersEnd = std::chrono::seconds(15);
constexpr Duration kUnaskedLeadersEnd = std::chrono::minutes(1);

// Peers of the leading replica that have finished, and how long this process has known.
struct Finished {
  bool any = false, awaited = false;  // awaited: the leading replica says that it waits for one
  Duration known = Duration::zero();
};

Finished FinishedPeers(const Observed& observed) {
  Finished finished;
  const api::TrainingJob& job = observed.job;
  if (!api::UsesBundledTrainer(job) || !IsSharedWork(job)) return finished;
  for (const Replica& replica : AllReplicas(job)) {
    if (replica == LeadingReplica(job) || replica.role == api::Role::kEvaluator) continue;
    const ObservedPod* pod = FindPod(observed, replica);
    const bool succeeded = pod != nullptr && HasSucceeded(*pod);
    if (!succeeded && !HasCompleted(job, replica)) continue;  // its pod may be gone by now
    finished.any = true;
    const std::vector<std::string>& awaited = observed.group.awaited;
    if (std::ranges::find(awaited, Describe(replica)) != awaited.end()) finished.awaited = true;
    const Time since =
        succeeded ? pod->succeeded_since.value_or(observed.now) : observed.first_seen;
    finished.known = std::max(finished.known, observed.now - since);
  }
  return finished;
}

// The leading replica's pod, if it should end and does not.
const ObservedPod* OutlivingLeader(const Observed& observed) {
  const ObservedPod* pod = FindPod(observed, LeadingReplica(observed.job));
  if (pod == nullptr || !IsActive(*pod) || IsNewPodFailure(observed, *pod)) return nullptr;
  // Of one on a silent node nobody knows whether it has ended: see IsUnreachable.
  return IsCounted(observed, *pod) || pod->node_silent_since ? nullptr : pod;
}

// One whose container was started again, or that was lost before its peers were seen to finish.
// What it was lost for has been charged.
void AddStranded(const Observed& observed, std::vector<PodFailure>& losses) {
  const ObservedPod* pod = OutlivingLeader(observed);
  if (pod == nullptr || observed.until_stranded != Duration::zero()) return;
  losses.push_back({pod, {pod->role, pod->index}, PodFailureCause::kDisruption});
}

Time EndOf(const Observed& observed, const PodFailure& loss) {
  const bool known = loss.pod != nullptr && loss.pod->termination;
  return known ? loss.pod->termination->finished_at.value_or(observed.now) : observed.now;
}

// What ends by itself while a peer's node is silent has lost that peer.
void AddSilent(const Observed& observed, std::vector<PodFailure>& losses) {
  const bool may_be_why = std::ranges::any_of(
      losses, [&observed](const PodFailure& loss) { return MayBeConsequence(observed.job, loss); });
  if (!may_be_why || !IsSharedWork(observed.job)) return;
  for (const ObservedPod& pod : observed.pods) {
    if (!pod.node_silent_since || !IsMember(observed, pod) || !IsActive(pod)) continue;
    if (pod.role == api::Role::kEvaluator || IsNewPodFailure(observed, pod)) continue;
    if (IsCounted(observed, pod)) continue;
    losses.push_back({&pod, {pod.role, pod.index}, PodFailureCause::kDisruption});
  }
}

// A failure is charged whoever deletes the pod afterwards. Times are whole seconds: in doubt the
// deletion came first.
bool EndedBeforeItsDeletion(const ObservedPod& pod) {
  return pod.deletion && pod.termination && pod.termination->finished_at &&
         *pod.termination->finished_at < pod.deletion->RequestedAt();
}

// Bytes; the CRD takes as many characters at least.
constexpr std::size_t kLongestFailureReason = 512, kLongestFailureMessage = 16'384,
                      kLongestFailureNode = 253;

api::Failure WithShortTexts(api::Failure failure) {
  failure.node = Shortened(std::move(failure.node), kLongestFailureNode);
  failure.reason = Shortened(std::move(failure.reason), kLongestFailureReason);
  failure.message = Shortened(std::move(failure.message), kLongestFailureMessage, " …");
  return failure;
}

}  // namespace

bool IsSharedWork(const api::TrainingJob& job) {
  if (api::HasStrategy(job.spec, api::StrategyType::kIndependent)) return false;
  return NodeCount(job) + ReplicaCount(job, api::Role::kParameterServer) > 1;
}

bool IsPeer(const PodFailure& loss) {
  return loss.replica.role != api::Role::kEvaluator;
}

bool MayBeConsequence(const api::TrainingJob& job, const PodFailure& loss) {
  if (!IsPeer(loss) || loss.pod == nullptr || !loss.pod->termination) return false;
  const Termination& end = *loss.pod->termination;
  if (loss.cause == PodFailureCause::kDisruption || WasEndedByNode(*loss.pod)) return false;
  if (end.signal != 0 || end.reason == "OOMKilled") return false;
  if (api::UsesBundledTrainer(job)) {
    return end.exit_code == api::kExitPeerLost || end.exit_code == api::kExitRendezvousDeadline;
  }
  return end.exit_code >= 1 && end.exit_code <= 127;
}

std::vector<PodFailure> NewPodFailures(const Observed& observed) {
  std::vector<PodFailure> losses;
  for (const ObservedPod& pod : observed.pods) {
    if (!IsNewPodFailure(observed, pod)) continue;
    const bool node_lost = !HasFailed(pod) && IsUnreachable(observed, pod);
    losses.push_back({&pod,
                      {pod.role, pod.index},
                      node_lost ? PodFailureCause::kDisruption : Classify(observed.job, pod)});
  }
  AddVanished(observed, losses);
  AddStranded(observed, losses);
  AddSilent(observed, losses);
  // The earliest end comes first: what follows is often its consequence.
  std::ranges::stable_sort(losses, {},
                           [&observed](const PodFailure& loss) { return EndOf(observed, loss); });
  return losses;
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

PodFailureCause Classify(const api::TrainingJob& job, const ObservedPod& pod) {
  const bool named =
      std::ranges::find(kDisruptionReasons, pod.reason) != std::end(kDisruptionReasons) ||
      pod.reason.starts_with(kNoRoomPrefix);
  const bool deleted = pod.being_deleted && !EndedBeforeItsDeletion(pod);
  if (pod.disruption_target || deleted || named) return PodFailureCause::kDisruption;
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
  // A pod that failed without its main container's exit code deserves another try, and what a
  // program exits with because it was told to end is not the program's verdict.
  const bool retryable = !pod.termination || WasEndedByNode(pod) ||
                         api::IsRetryableExitCode(pod.termination->exit_code);
  return retryable ? PodFailureCause::kApplication : PodFailureCause::kPermanent;
}

std::string Describe(const PodFailure& loss) {
  const std::string who = Describe(loss.replica);
  if (loss.pod == nullptr) return fmt::format("the pod of {} has vanished", who);
  const ObservedPod& pod = *loss.pod;
  const std::string where = pod.node.empty() ? "" : fmt::format(" on node {}", pod.node);
  if (pod.termination && !WasEndedByNode(pod)) {
    const std::string& reason = pod.termination->reason;
    return fmt::format("{}{} exited with code {}{}", who, where, pod.termination->exit_code,
                       reason.empty() || reason == "Error" ? "" : fmt::format(" ({})", reason));
  }
  if (!pod.reason.empty()) return fmt::format("{}{} was lost: {}", who, where, pod.reason);
  if (pod.disruption_target) {
    return fmt::format("{}{} was disrupted: {}", who, where, pod.disruption_reason);
  }
  const char* how = HasFailed(pod) ? "has failed" : "waits for replicas that have finished";
  if (pod.being_deleted) how = "is being deleted";
  if (!HasFailed(pod) && pod.node_silent_since) how = "cannot be reached: its node is silent";
  return fmt::format("the pod of {}{} {}", who, where, how);
}

api::Failure FailureOf(const PodFailure& loss) {
  api::Failure failure{.role = std::string(api::RoleName(loss.replica.role)),
                       .index = loss.replica.index,
                       .node = "",
                       .exit_code = 0,
                       .reason = "PodVanished",
                       .message = ""};
  if (loss.pod == nullptr) return failure;
  failure.node = loss.pod->node;
  failure.reason = loss.pod->reason.empty() ? loss.pod->disruption_reason : loss.pod->reason;
  if (failure.reason.empty()) failure.reason = loss.pod->node_silent_since ? "NodeLost" : "PodLost";
  failure.message = loss.pod->message;
  // An end that the kubelet has made good by a restart says most of a pod that restarts for ever.
  const auto& end = loss.pod->termination ? loss.pod->termination : loss.pod->last_end;
  if (end) failure.exit_code = end->exit_code;
  if (end && !WasEndedByNode(*loss.pod)) {
    failure.reason = end->reason;
    failure.message = end->message;
  }
  return WithShortTexts(std::move(failure));
}

}  // namespace lockstep::controller
