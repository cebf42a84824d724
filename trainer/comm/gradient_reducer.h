// Sums gradients over all ranks while backward still runs. Buckets are contiguous pieces of the
// gradient buffer, filled from its end to its start; a bucket's all-reduce starts when its last
// piece is ready, on the reducer's own thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "trainer/comm/communicator.h"

namespace lockstep::train {

// Used by one thread, the training thread. Allocates nothing after its creation (Gloo does).
class GradientReducer {
 public:
  struct Bucket {
    std::int64_t begin = 0, end = 0;  // floats
    bool operator==(const Bucket&) const = default;
  };
  // Pure: cuts [0, size) at layer starts (ascending), from the end, into buckets of at least
  // `bucket_floats`; what is left before the first of them is a bucket of its own, however small,
  // since joining it to its neighbour would hold that one up until backward ends.
  static std::vector<Bucket> PlanBuckets(std::span<const std::int64_t> layer_starts,
                                         std::int64_t size, std::int64_t bucket_floats);

  // `communicator` and `buffer` outlive the reducer, and nothing else uses the communicator between
  // the first Ready() of a step and its Wait(). A communicator of size one makes every call a
  // no-op. Destroyed in the middle of a step, the reducer aborts the communicator.
  static std::unique_ptr<GradientReducer> Create(Communicator& communicator,
                                                 std::span<float> buffer,
                                                 std::vector<Bucket> buckets);
  virtual ~GradientReducer() = default;
  // [begin, buffer.size()) is complete. Called by the training thread, descending.
  virtual void Ready(std::int64_t begin) = 0;
  // Says that all gradients are complete, and waits for all buckets of this step. Unavailable or
  // Cancelled: the step's sums are worthless, and the reducer is, too.
  virtual absl::Status Wait() = 0;
  // Seconds that Wait() has blocked since the start: communication that backward did not hide.
  virtual double ExposedSeconds() const = 0;
};

}  // namespace lockstep::train
