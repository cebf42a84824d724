// What the process of an Evaluator's pod does.
#pragma once

#include "base/clock.h"
#include "trainer/checkpoint/owner.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

// Evaluates until training has ended and its last checkpoint is evaluated, or until this process is
// asked to stop. Returns its exit code (api/v1/names.h); after a good end, the termination message
// has the last evaluation. `owner`: this process, as one that saves.
int RunEvaluatorPod(const Identity& identity, const CheckpointOwner& owner, int threads,
                    const Clock& clock);

}  // namespace lockstep::train
