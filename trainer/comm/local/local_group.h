// Ranks as threads of one process: the plain communicator that tests of everything above use, and
// that the others are compared with.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "trainer/comm/communicator.h"

namespace lockstep::train {

// One communicator a rank, by rank; each may outlive the others, whose end it sees as Unavailable.
// A wait of more than `timeout` for a peer fails with Unavailable.
std::vector<std::unique_ptr<Communicator>> MakeLocalGroup(
    int size, Duration timeout = std::chrono::seconds(30));

}  // namespace lockstep::train
