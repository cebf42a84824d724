// The process of a PS pod.
#pragma once

#include "base/clock.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

// Serves this pod's shard until the run is over or this pod is asked to stop. Returns the exit code
// (api/v1/names.h) and logs any error.
int RunParameterServerPod(const Identity& identity, int threads, const Clock& clock);

}  // namespace lockstep::train
