// Selects the fastest communicator that all members can use: single, shm (if every rank can map all
// gradient buffers), else gloo over TCP.
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
#include "trainer/comm/root_memory.h"

namespace lockstep::train {

struct CommunicatorOptions {
  int rank = 0, size = 1;
  std::string bind_address;  // this pod's own IP, for gloo
  // By rank, the only IP address that the rank may connect from, for gloo. Empty: any address.
  std::vector<std::string> callers;
  // Called by gloo once its connections are established or have failed. `took` is the time since
  // all members' addresses were known. Not called if the group fails before that.
  std::function<void(const absl::Status& connected, Duration took)> on_connected;
  Duration connect_timeout = std::chrono::seconds(30);  // for each wait while the group is formed
  Duration timeout = std::chrono::seconds(30);          // for each wait for a peer afterwards
  bool allow_shm = true;
  // On all ranks or none: what shm shares from rank 0 as long as this communicator is the newest,
  // unless rank 0 has no memory to share. Other communicators share nothing.
  RootMemory* root_memory = nullptr;
  // Returns 32 bytes that prove, for a nonce and a text, that this rank knows the job's token.
  // Empty: ranks do not authenticate. Used by gloo only: shared memory has no name by which a
  // stranger could open it.
  std::function<std::string(const std::string& nonce, const std::string& text)> prove;
  // A stop request acts as Abort(), even while the communicator is being created.
  std::stop_token cancel;
};

// Every member calls it, after destroying the previous generation's communicator. Renews `buffer`,
// so its content is lost. AllReduceSum needs no copies for `buffer`, but may for other memory.
// Requires: `buffer` outlives the result. Cancelled: the generation ended. Unavailable: a
// connection to a peer failed, or `buffer` could not be renewed. DeadlineExceeded: a peer did not
// announce itself in the store within connect_timeout.
absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const CommunicatorOptions& options,
                                                               KeyValueStore& store,
                                                               GradientBuffer& buffer);

}  // namespace lockstep::train
