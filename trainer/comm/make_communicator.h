// Picks the fastest communicator that all members can use: single, shm (every rank sees every
// other's gradient buffer), else gloo over TCP.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/comm/key_value_store.h"

namespace lockstep::train {

struct CommunicatorOptions {
  int rank = 0, size = 1;
  std::string bind_address;  // this pod's own IP, for gloo
  // The IP addresses that members connect from, for gloo: nobody else can. Empty: anybody can.
  std::vector<std::string> callers;
  // Called by gloo once its connections are there, or failed, with the time that they took.
  std::function<void(const absl::Status& connected, Duration took)> on_connected;
  Duration connect_timeout = std::chrono::seconds(30);  // of every wait while the group is formed
  Duration timeout = std::chrono::seconds(30);          // of every wait for a peer afterwards
  bool allow_shm = true;
  // 32 bytes that show that this rank knows the job's token, for a nonce and a text; empty: ranks
  // believe who connects. (Shared memory cannot be reached by name: the kernel guards it.)
  std::function<std::string(const std::string& nonce, const std::string& text)> prove;
  // Stopping it is Abort(), also while the communicator is still being made.
  std::stop_token cancel;
};

// Collective: every member calls it, after it has destroyed the communicator of the generation
// before. `buffer` is the memory later given to AllReduceSum (any other memory works too, with a
// copy) and outlives the result. Cancelled: the generation ended; Unavailable or DeadlineExceeded:
// a peer did not take part.
absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const CommunicatorOptions& options,
                                                               KeyValueStore& store,
                                                               GradientBuffer& buffer);

}  // namespace lockstep::train
