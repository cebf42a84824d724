// A fixed group of ranks and its collectives. Every rank calls the same collectives in the same
// order with the same sizes. Results are bitwise equal on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace lockstep::train {

// One thread at a time may call collectives; any thread may call Abort. A collective fails with
// Unavailable if a peer is lost, aborts or is later than the group's timeout; the message says what
// is known of the peer. If ranks call different collectives, it fails with FailedPrecondition where
// that can be detected (local, shm). After a failure every collective fails. In a group of one,
// every collective is the identity.
//
// A lost peer is detected at once, with one exception: Gloo does not report a connection that
// breaks in the middle of a message, so only the timeout ends such a wait. A caller that learns of
// the loss in another way (the rendezvous does, by its heartbeats) calls Abort.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string Name() const = 0;  // "local", "shm", "gloo", "single"
  // Replaces `data` by its sum over ranks. local and shm add in rank order, and so does gloo if all
  // ranks' data are few. It adds many in its ring's order, which depends only on the element's
  // position, so runs are reproducible.
  virtual absl::Status AllReduceSum(std::span<float> data) = 0;
  // True if a sum of many numbers takes a number of messages, one after the other, that grows with
  // the ranks.
  virtual bool SumsInARing() const { return false; }
  // Overwrites `data` on every rank with the data of rank `root`.
  virtual absl::Status Broadcast(std::span<std::byte> data, int root) = 0;
  virtual absl::Status Barrier() = 0;
  // Makes this rank's current and later collectives return Cancelled; the peers' collectives fail.
  // Thread-safe. Idempotent.
  virtual void Abort() = 0;
};

}  // namespace lockstep::train
