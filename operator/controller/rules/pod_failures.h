// What a job has lost since it was last charged for. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/controller/state/observed.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

enum class PodFailureCause {
  kPermanent,    // will fail again: the job fails
  kApplication,  // charged to backoffLimit
  kDisruption,   // preempted, drained, evicted, node lost, deleted: free
};

struct PodFailure {
  const ObservedPod* pod = nullptr;  // null: the pod has vanished
  Replica replica;
  PodFailureCause cause = PodFailureCause::kApplication;
};

// Why a pod that has failed, or is being deleted by somebody, was lost. One that had failed before
// it was deleted has failed.
PodFailureCause Classify(const api::TrainingJob& job, const ObservedPod& pod);

// Pods that have failed, are being deleted or cannot be reached, of a gang that has run those that
// have vanished, and a leading replica that waits for peers that have finished; none of them
// charged before. The earliest end comes first. They point into `observed`.
std::vector<PodFailure> NewPodFailures(const Observed& observed);

// True if `replica` leads a group of the bundled trainer of which somebody has finished. Members
// finish together, and the leading one ends last. If it starts again after that, it needs all of
// them: the others know nothing of the run any more, and those that have finished do not come back.
bool LeadsFinishedPeers(const Observed& observed, const Replica& replica);
// How long a leading replica that still runs, after others have finished, is given to end; nothing:
// there is no such one. Looks through all replicas: rules read Observed::until_stranded.
std::optional<Duration> UntilStranded(const Observed& observed);

// True if replicas cannot go on without each other.
bool IsSharedWork(const api::TrainingJob& job);
// False of an Evaluator, whom nobody waits for.
bool IsPeer(const PodFailure& loss);
// True if its program ended by itself, and may have done so because it lost a peer. The bundled
// trainer says so by its code; other programs know 1 to 127 for everything. A signal, too much
// memory and an end without a code are never a peer's doing.
bool MayBeConsequence(const api::TrainingJob& job, const PodFailure& loss);

// "worker-1 on node n exited with code 137 (OOMKilled)"
std::string Describe(const PodFailure& loss);
// For status.failure; no text in it is longer than the schema takes.
api::Failure FailureOf(const PodFailure& loss);

}  // namespace lockstep::controller
