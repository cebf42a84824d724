// How replicas combine their gradients and keep the same state. One object lives as long as the
// replica; a generation of membership is one Connect().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/v1/job_token.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/rendezvous/rendezvous.h"

namespace lockstep::train {

// Used by the training thread, Abort() by any. Every error ends the generation: a peer is lost, or
// it is too late (see CollectiveOptions), or was given up by somebody else. FailedPrecondition: the
// ranks do not call the same operations, and would not in the next generation either.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // Forms this generation's group. Every member calls it. Cancelled: this pod was asked to stop.
  virtual absl::Status Connect(const Membership& membership, KeyValueStore& store) = 0;
  // Overwrites `data` on every rank with that of rank `root`.
  virtual absl::Status Broadcast(std::span<std::byte> data, int root) = 0;
  // The sum over ranks, in place: for a few numbers outside a step.
  virtual absl::Status Sum(std::span<float> data) = 0;
  // [begin, end of the gradient buffer) is final on this rank. Descending within a step.
  virtual void GradientsReady(std::int64_t begin) = 0;
  // Waits until the whole buffer holds the sum over ranks.
  virtual absl::Status FinishGradients() = 0;
  // Seconds spent waiting in FinishGradients since the replica started.
  virtual double ExposedSeconds() const = 0;
  virtual std::string CommunicatorName() const = 0;
  // That generation is over: wakes whatever waits for its members, now or later. Thread-safe.
  virtual void Abort(std::uint64_t generation) = 0;
};

struct CollectiveOptions {
  std::string bind_address;                // this pod's own IP; empty: all
  bool allow_shm = true;                   // ranks of one host may share memory
  std::vector<std::int64_t> layer_starts;  // in the gradient buffer, ascending
  std::int64_t bucket_floats = 1 << 19;    // 2 MB: a few large buckets (see MakeCollectiveStrategy)
  // Who is dead is told by the rendezvous's heartbeats, within seconds. These waits only end a
  // generation in which somebody lives and yet does not come: a rank may be slow at its batch, or
  // wait for a disk. A collective's timeout is kStepsPerTimeout times the longest recent step, at
  // least this; it doubles each time that it has run out, so that no lasting difference in speed
  // can end every generation.
  Duration least_timeout = std::chrono::minutes(5);
  Duration connect_timeout = std::chrono::seconds(30);  // nobody computes while the group is formed
  api::JobToken token;                                  // absent: whoever connects is believed
  std::function<bool()> stop_requested = [] { return false; };  // ends Connect; any thread
};

inline constexpr int kStepsPerTimeout = 10;

// Mirrored and MultiWorkerMirrored: every rank holds all state, gradients are summed by a
// collective.
std::unique_ptr<Strategy> MakeCollectiveStrategy(GradientBuffer& buffer, CollectiveOptions options);

}  // namespace lockstep::train
