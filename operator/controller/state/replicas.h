// The replicas of a job: roles, indexes, ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/v1/training_job.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

int ReplicaCount(const api::TrainingJob& job, api::Role role);  // 0 if the job lacks the role
// Returns every replica of the spec in the order chief, workers, parameter servers, evaluator.
std::vector<Replica> AllReplicas(const api::TrainingJob& job);
// Returns true if a replica looks for another by a name that the job's Service gives it; one in an
// image of the user's own may look for itself, too.
bool NeedsService(const api::TrainingJob& job);
// Returns true if pods of the role may be created in the present attempt: it depends on no other,
// or the status says that its wait is over.
bool HasStarted(const api::TrainingJob& job, api::Role role);
// Returns true if the replicas of the role that the job requires have all been up in the present
// attempt: the job has run, or, while roles wait for others, the status says so of this one.
bool HasBeenUp(const api::TrainingJob& job, api::Role role);
// Returns true if the job's PS replicas serve no training: they have work of their own, and end
// when it is done.
bool HasHelpers(const api::TrainingJob& job);
// Returns true if the job's status says that the replica has succeeded in the present attempt. The
// status decides because the pod may be gone. status.completedIndexes records it for workers,
// completedHelpers for helpers and replicaStatuses for the chief. Operators that noted no helpers
// have left how many have succeeded, or that a role has started which waited for their end.
bool ReplicaCompleted(const api::TrainingJob& job, const Replica& replica);
// Returns the replicas that have not completed, and so need a pod.
std::vector<Replica> WantedReplicas(const api::TrainingJob& job);
// Returns those of them whose roles have started.
std::vector<Replica> StartedReplicas(const api::TrainingJob& job);
// Returns the chief, else worker 0. It has rank 0, serves the rendezvous, and its success counts.
Replica LeadingReplica(const api::TrainingJob& job);
// Returns the number of workers that the job needs to run. For an elastic job this is its minimum
// if the program can run with fewer workers than the spec has: torchrun (as far as the spec shows
// that) and TensorFlow's workers with parameter servers. Every other program, including the bundled
// trainer, gets the number of replicas and waits for all of them.
int RequiredWorkers(const api::TrainingJob& job);
// Returns true if the job cannot run without the replica. Workers beyond RequiredWorkers are
// optional, and so are Evaluators, which are not part of the group.
bool IsRequired(const api::TrainingJob& job, const Replica& replica);
// Returns the replica's position among those that train (chief first, then workers); nullopt for
// parameter servers and evaluators.
std::optional<int> NodeRank(const api::TrainingJob& job, const Replica& replica);
// Returns the number of replicas that train.
int NodeCount(const api::TrainingJob& job);

// Returns this replica's pod in the job's present attempt; null if there is none.
const ObservedPod* FindPod(const Observed& observed, const Replica& replica);
// Returns the pods of the replicas that the job requires and that have not completed; null for each
// replica without one.
std::vector<const ObservedPod*> RequiredPods(const Observed& observed);
// Returns true if the pod belongs to the present attempt and the spec has its index.
bool IsMember(const Observed& observed, const ObservedPod& pod);
std::string Describe(const Replica& replica);  // "worker-1"

}  // namespace lockstep::controller
