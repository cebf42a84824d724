// A fixed group of ranks and its collectives. Every rank calls the same collectives in the same
// order with the same sizes. Results are bitwise equal on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace lockstep::train {

// Collectives are called by one thread at a time; Abort() by any. The loss of a peer, a peer's
// Abort() or a peer that is late by more than the group's timeout fails the collective with
// Unavailable (the message names what is known of the peer); ranks that call different collectives
// get FailedPrecondition where that can be seen (local, shm). After a failure every collective
// fails. A group of one is valid: every collective is the identity.
//
// A lost peer is seen at once, with one exception: Gloo tells nobody of a connection that breaks
// with a message half sent, so that only the timeout ends such a wait. Whoever learns of a loss by
// another road (the rendezvous does, within its heartbeat) calls Abort().
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string Name() const = 0;  // "local", "shm", "gloo", "single"
  // In place: the sum over ranks. local and shm add in rank order; gloo adds in its ring's order,
  // which depends on the element's position only, so that runs are reproducible.
  virtual absl::Status AllReduceSum(std::span<float> data) = 0;
  virtual absl::Status Broadcast(std::span<std::byte> data, int root) = 0;
  virtual absl::Status Barrier() = 0;
  // Wakes the waiting collective of this rank, which returns Cancelled, as do all later ones; the
  // peers' collectives fail. Thread-safe, idempotent.
  virtual void Abort() = 0;
};

}  // namespace lockstep::train
