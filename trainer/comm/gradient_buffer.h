// Memory for gradients that ranks of the same host can share, so that a sum needs no copies.
// Lives as long as the process and outlives communicators.
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
  // Allocates zeroed memory: shared if possible, else private (then name() is empty, and ranks of
  // one host use sockets). If `reserves` is false, shared memory takes no room yet, and Reserve()
  // must succeed before the memory is used. Unavailable: there is not enough memory at present.
  static absl::StatusOr<std::unique_ptr<GradientBuffer>> Create(std::size_t floats,
                                                                bool reserves = true);
  virtual ~GradientBuffer() = default;
  virtual float* data() = 0;             // never changes
  virtual std::size_t size() const = 0;  // floats
  // The SharedSegment::Locator by which peers on this host find the memory; empty: private.
  virtual std::string name() const = 0;

  // Reserves the room that the memory needs; does nothing if that has been done. Unavailable: as
  // for Create.
  virtual absl::Status Reserve() = 0;
  // Called before this rank agrees that the ranks of a group share their memory.
  virtual void WillBeShared() = 0;
  // Called before each generation's group is formed; the content may be lost. Afterwards no process
  // of an earlier generation can reach the memory behind data(). Otherwise a process that was given
  // up as dead and wakes up would write its late sums into the live ranks' gradients. Memory that
  // was not shared since the last call stays, with zeros in what is used of it. Unavailable: not
  // enough memory at present; the memory must not be used until a later call succeeds.
  virtual absl::Status Renew() = 0;
  virtual SharedSegment* segment() = 0;  // null: private
};

}  // namespace lockstep::train
