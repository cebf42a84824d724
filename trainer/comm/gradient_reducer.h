// Sums gradients over all ranks while the backward pass is still running. Buckets are contiguous
// ranges of the gradient buffer, filled from its end to its start. A bucket's all-reduce starts as
// soon as all of it is ready: on the reducer's thread or, for gradients on a device with a queue,
// on a stream of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/stream_communicator.h"
#include "trainer/core/flat_range.h"

namespace lockstep::train {

// Not thread-safe; used by the training thread. Does not allocate after creation (Gloo does).
class GradientReducer {
 public:
  struct Bucket {
    std::int64_t begin = 0, end = 0;  // floats
    bool operator==(const Bucket&) const = default;
  };
  // Cuts [0, size) from its end into buckets of at least `bucket_floats`, at layer starts
  // (ascending). The rest at the front is a bucket of its own, however small: merging it with its
  // neighbour would delay that one until the backward pass ends. Pure.
  static std::vector<Bucket> PlanBuckets(std::span<const std::int64_t> layer_starts,
                                         std::int64_t size, std::int64_t bucket_floats);

  // Requires: `communicator` and `buffer` outlive the reducer, and nothing else uses the
  // communicator between a step's first Ready() and its Wait(). With a communicator of size 1 every
  // call is a no-op. If destroyed in the middle of a step, the reducer aborts the communicator.
  static std::unique_ptr<GradientReducer> Create(Communicator& communicator,
                                                 std::span<float> buffer,
                                                 std::vector<Bucket> buckets);
  // For gradients in device memory, which `collectives` sums. Ready() then declares work that is
  // queued on sums.compute, and Wait() queues there a wait for the sums and returns at once; what
  // becomes of them is in sums.is_summed and, once they are done, in status(). The same
  // requirements of `collectives`, whose group has `ranks`; when destroyed, blocks until what is
  // queued has ended.
  static std::unique_ptr<GradientReducer> CreateOnStreams(int ranks,
                                                          StreamCommunicator& collectives,
                                                          std::vector<Bucket> buckets,
                                                          const DeviceSums& sums);
  virtual ~GradientReducer() = default;
  // Declares [begin, buffer.size()) complete. `begin` descends within a step.
  virtual void Ready(std::int64_t begin) = 0;
  // Declares all gradients complete and blocks until this step's buckets are summed. On failure,
  // returns the collective's error; the step's sums and the reducer are then unusable.
  virtual absl::Status Wait() = 0;
  // Overwrites ranges of the buffer on every rank with those of the rank that has them: `shares`,
  // by rank; later ranks have none. As Wait(), it blocks, or queues on sums.compute and returns at
  // once. Requires: called between a Wait() and the next step's first Ready(). On failure, what
  // other ranks have may be anything here, and every later call fails.
  virtual absl::Status BroadcastShares(std::span<const FlatRange> shares) = 0;
  // The first failure of the sums and broadcasts that are done. Thread-safe.
  virtual absl::Status status() const = 0;
};

}  // namespace lockstep::train
