// Picks the fastest communicator that all members can use: single, shm (every rank sees every
// other's gradient buffer), else gloo over TCP.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/base/clock.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/comm/key_value_store.h"

namespace lockstep::train {

struct CommunicatorOptions {
  int rank = 0, size = 1;
  std::string bind_address;              // this pod's own IP, for gloo
  Duration timeout = std::chrono::seconds(30);
  bool allow_shm = true;
};

// Collective: every member calls it. `buffer` is the memory later given to AllReduceSum (any other
// memory works too, with a copy).
absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const CommunicatorOptions& options,
                                                               KeyValueStore& store,
                                                               GradientBuffer& buffer);

}  // namespace lockstep::train
