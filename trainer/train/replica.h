// A replica process: one device, one rank, from start to exit code.
#pragma once

#include "base/clock.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

// Returns the exit code (api/v1/names.h); what went wrong is in the log.
int RunReplica(const Identity& identity, const Clock& clock);

// Threads a replica may keep busy: the cores of its affinity mask and cgroup quota, shared between
// the replicas of the pod; at least one.
int ReplicaThreads(int processes_per_pod);

}  // namespace lockstep::train
