// Who belongs to a job: roles, indexes, ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/v1/training_job.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

struct Replica {
  api::Role role = api::Role::kWorker;
  int index = 0;
  auto operator<=>(const Replica&) const = default;
};

int ReplicaCount(const api::TrainingJob& job, api::Role role);  // 0 without the role
// Every replica of the spec: chief, workers, parameter servers, evaluator.
std::vector<Replica> AllReplicas(const api::TrainingJob& job);
// True if the replica has done its work in the present attempt, by the job's status: its pod may be
// gone. Of workers status.completedIndexes says so, of the chief its count in replicaStatuses.
bool HasCompleted(const api::TrainingJob& job, const Replica& replica);
// Those that still need a pod.
std::vector<Replica> WantedReplicas(const api::TrainingJob& job);
// The chief, else worker 0: rank 0, the rendezvous' address, the one whose success counts.
Replica LeadingReplica(const api::TrainingJob& job);
// True if the job cannot run without it: an elastic job runs with its minimum, an Evaluator is
// nobody's peer.
bool IsRequired(const api::TrainingJob& job, const Replica& replica);
// Position among those that train (chief first, then workers); nothing for PS and Evaluator.
std::optional<int> NodeRank(const api::TrainingJob& job, const Replica& replica);
// How many train.
int NodeCount(const api::TrainingJob& job);

// The pod that is this replica in the job's present attempt; null if there is none.
const ObservedPod* FindPod(const Observed& observed, const Replica& replica);
// True if the pod is of the present attempt and its index is one of the spec's.
bool IsMember(const Observed& observed, const ObservedPod& pod);
std::string Describe(const Replica& replica);  // "worker-1"

}  // namespace lockstep::controller
