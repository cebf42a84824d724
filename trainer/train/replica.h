// A replica process: one device and one rank, from start to exit.
#pragma once

#include "base/clock.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

// Runs the replica to its end. Returns the exit code (api/v1/names.h) and logs any error.
int RunReplica(const Identity& identity, const Clock& clock);

// Returns the number of compute threads for one replica, at least 1: the lesser of the affinity
// mask's cores and the cgroup's quota, divided by the pod's replicas.
int ReplicaThreads(int processes_per_pod);

}  // namespace lockstep::train
