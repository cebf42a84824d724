// A replica process of every role but the Evaluator's: one device and one rank, from start to exit.
#pragma once

#include <optional>

#include "base/clock.h"
#include "trainer/checkpoint/owner.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

struct ReplicaEnd {
  int exit_code = 0;  // see api/v1/names.h
  // The process is to start again, as one of so many workers: the group was resized.
  std::optional<int> new_workers;
};

// Runs the replica to its end, and logs any error. Requires: the role is not Evaluator; that one's
// process is RunEvaluatorPod's (evaluator/evaluator_pod.h).
ReplicaEnd RunReplica(const Identity& identity, const Clock& clock);

// Returns this process as the owner of the checkpoints that it saves.
CheckpointOwner OwnerFor(const Identity& identity);

// Returns the number of compute threads for one replica, at least 1: the lesser of the affinity
// mask's cores and the cgroup's quota, divided by the pod's replicas.
int ReplicaThreads(int processes_per_pod);

}  // namespace lockstep::train
