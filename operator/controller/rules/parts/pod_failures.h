// The pod failures of a job that have not been charged yet. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/controller/state/failure_policy.h"
#include "operator/controller/state/observed.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

// The reason of a failure that the operator finds by itself: the pod cannot be reached.
inline constexpr std::string_view kNodeLost = "NodeLost";

// Another such reason: the pod runs, but its process hangs, and its group has given it up.
inline constexpr std::string_view kReplicaHung = "ReplicaHung";

enum class PodFailureCause {
  kPermanent,    // would fail again, so the job fails
  kApplication,  // charged to backoffLimit
  kDisruption,   // preempted, drained, evicted, node lost, deleted: free
};

struct PodFailure {
  const ObservedPod* pod = nullptr;  // null: a gang's pod has vanished
  Replica replica;
  PodFailureCause cause = PodFailureCause::kApplication;
  std::optional<FailureRuleMatch> rule = {};  // of the job's podFailurePolicy
  // Describes a job without progress, or a hanging replica, for people; empty: the pod itself has
  // failed.
  std::string stall = {};
  std::string_view stall_reason = {};
};

// Returns how many workers that were ready when the status last counted them are gone: they have
// not finished, and have no started pod now. 0 or less: none. An operator that has just started
// knows only this number, not which workers they are. The status may be a little old, but never
// counts a pod that had not started.
int CountGoneWorkers(const Observed& observed);

// Returns what the failure counts as: what the job's rule says, else its cause. Whether it may be a
// consequence depends only on `cause`, not on the rule.
PodFailureCause CountsAs(const PodFailure& failure);

// Returns the cause of a pod that has failed or is being deleted, by its role's restartPolicy. A
// pod that failed before its deletion counts as failed. If this process learned of both at the same
// time, the failure must be more than 5 s earlier.
PodFailureCause Classify(const api::TrainingJob& job, const ObservedPod& pod);

// Returns true if the status lists the pod in countedPods: its loss has been charged or excused, or
// it was to be deleted because the job had been scaled down. The pod must be deleted before its
// replica can be recreated. How it ends does not matter, even if the job has grown again, except to
// SuccessCounts.
bool IsCounted(const Observed& observed, const ObservedPod& pod);
// Returns true if the pod has succeeded and its success counts. The success of a pod for which
// IsCounted holds does not count, because a program that was told to end may exit with 0 before it
// has finished; it does count with the bundled trainer, which exits with 0 only if it has finished.
bool SuccessCounts(const Observed& observed, const ObservedPod& pod);

// Returns the failures that are not charged yet, without the Evaluator's, earliest end first: pods
// that have failed, are being deleted or cannot be reached; vanished pods of a gang that has run; a
// leading replica that waits for peers that have finished; pods on silent nodes, if a peer may have
// ended because it lost them; and hanging replicas, if the members that have ended had waited for
// them without success. The result points into `observed`.
std::vector<PodFailure> NewPodFailures(const Observed& observed);
// Returns that of the Evaluator, if it is not counted yet. No replica waits for an Evaluator, so it
// is neither the cause nor the consequence of another failure.
std::optional<PodFailure> NewEvaluatorFailure(const Observed& observed);

// Returns true if `replica` leads a group of the bundled trainer in which a peer has finished.
// Members finish together, and the leading one last. If it restarts after that, it needs all of
// them again: the others have forgotten the run, and finished ones do not return. Where a peer's
// success proves that the result is saved, the job has succeeded instead: see TrainingEnd.
bool LeadsFinishedPeers(const Observed& observed, const Replica& replica);
// Returns how much longer the leading replica may run after peers have finished; nullopt if no peer
// has finished, or the leading replica has ended, has failed or is on a silent node. Scans all
// replicas: rules read Observed::until_stranded instead.
std::optional<Duration> UntilStranded(const Observed& observed);
// Returns how long it takes until that leading replica is among the failures; nullopt if it already
// is, or if UntilStranded is nullopt.
std::optional<Duration> UntilLeaderFails(const Observed& observed);

// Returns true if nobody saw how a main container ended: its node crashed and came back, and the
// runtime, or the kubelet, found it gone. The exit code is a placeholder.
bool HasUnknownEnd(const Termination& end);

// Returns how many of the kubelet's restarts of the pod are charged.
int ChargedRestarts(const ObservedPod& pod);

// Returns true if several replicas work on one training, so that the end of one may be a
// consequence of another's.
bool IsSharedWork(const api::TrainingJob& job);
// Returns true if the program ended by itself, possibly because it lost a peer. The bundled
// trainer's exit code says so; other programs use 1 to 127 for everything. A signal, an OOM kill or
// an end without an exit code is never a consequence.
bool MayBeConsequence(const api::TrainingJob& job, const PodFailure& failure);
bool MayBeConsequence(const api::TrainingJob& job, const Termination& end);
// Returns the same for a failure that only status.failure still records.
bool MayBeConsequence(const api::TrainingJob& job, const api::Failure& failure);

// Returns true if the program ended by itself, with success, and starts again because its role has
// restartPolicy Always. Such an end is charged, but it is neither the cause nor the consequence of
// another failure.
bool StartsAgainAfterSuccess(const PodFailure& failure);

}  // namespace lockstep::controller
