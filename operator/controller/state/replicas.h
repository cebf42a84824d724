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
// Returns true if the replica has succeeded in the present attempt according to the job's status,
// since its pod may be gone. status.completedIndexes records it for workers, replicaStatuses for
// the chief.
bool HasCompleted(const api::TrainingJob& job, const Replica& replica);
// Returns the replicas that have not completed, and so need a pod.
std::vector<Replica> WantedReplicas(const api::TrainingJob& job);
// Returns the chief, else worker 0. It has rank 0, serves the rendezvous, and its success counts.
Replica LeadingReplica(const api::TrainingJob& job);
// Returns the number of workers without which the job cannot run. Of an elastic job that is the
// minimum if its program forms a group of that many: torchrun, as far as one can tell, and
// TensorFlow's workers with parameter servers. All other programs, the bundled trainer among them,
// are told how many replicas there are, and wait for every one.
int RequiredWorkers(const api::TrainingJob& job);
// Returns true if the job cannot run without the replica: a worker beyond RequiredWorkers is
// optional, and so is an Evaluator, which is not part of the group.
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
