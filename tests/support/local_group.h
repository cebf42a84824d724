// Ranks as threads of one process. Tests of the layers above use this simple communicator, and the
// other ones are compared with it.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "trainer/comm/communicator.h"

namespace lockstep::train {

// Returns one communicator per rank. Once one is destroyed, the others' collectives fail with
// Unavailable. A wait for a peer of more than `timeout` fails with Unavailable.
std::vector<std::unique_ptr<Communicator>> MakeLocalGroup(
    int size, Duration timeout = std::chrono::seconds(30));

}  // namespace lockstep::train
