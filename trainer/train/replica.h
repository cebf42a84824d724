// A replica process of every role but the Evaluator's: one device and one rank, from start to exit.
#pragma once

#include "base/clock.h"
#include "trainer/checkpoint/owner.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

// Runs the replica to its end. Returns the exit code (api/v1/names.h) and logs any error. Requires:
// the role is not Evaluator; that one's process is RunEvaluatorPod's (evaluator/evaluator_pod.h).
int RunReplica(const Identity& identity, const Clock& clock);

// Returns this process as the owner of the checkpoints that it saves.
CheckpointOwner OwnerFor(const Identity& identity);

// Returns the number of compute threads for one replica, at least 1: the lesser of the affinity
// mask's cores and the cgroup's quota, divided by the pod's replicas.
int ReplicaThreads(int processes_per_pod);

}  // namespace lockstep::train
