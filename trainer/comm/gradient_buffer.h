// Memory for gradients that ranks of the same host can see, so that a sum needs no copies.
// Lives as long as the process; communicators come and go over it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::train {

class SharedSegment;

// Not thread-safe.
class GradientBuffer {
 public:
  // Zeroed; in shared memory if there is room, else private (then name() is empty and same-host
  // ranks fall back to sockets). ResourceExhausted if there is no room for that either.
  static absl::StatusOr<std::unique_ptr<GradientBuffer>> Create(std::size_t floats);
  virtual ~GradientBuffer() = default;
  virtual float* data() = 0;             // never changes
  virtual std::size_t size() const = 0;  // floats
  // Where peers of this host find the memory (SharedSegment::Locator); empty: private.
  virtual std::string name() const = 0;

  // For communicators. Moves data(), at the same address and with the same content, to memory that
  // no process of an earlier generation can reach: one that was given up for dead and wakes up
  // would otherwise write its late sums into the live ranks' gradients.
  virtual absl::Status Renew() = 0;
  virtual SharedSegment* segment() = 0;  // null: private
};

}  // namespace lockstep::train
