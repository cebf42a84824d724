// Collectives over TCP with Gloo: for ranks on different hosts.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/key_value_store.h"
#include "trainer/comm/make_communicator.h"

namespace lockstep::train {

// Connects every pair of `options.size` >= 2 members; every member calls it. Ignores SIGPIPE for
// the whole process if it has no handler: Gloo writes to sockets whose peer may be gone.
absl::StatusOr<std::unique_ptr<Communicator>> MakeGlooCommunicator(
    const CommunicatorOptions& options, KeyValueStore& store);

}  // namespace lockstep::train
