// Where an arena's memory comes from: the host, or a device.
#pragma once

#include <cstddef>

namespace lockstep::train {

// Not thread-safe. Outlives all memory that it has given out.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Returns `bytes` > 0 of zeroed memory, aligned to kArenaAlignment or more. Throws if there is
  // not enough. The host may be unable to read or write it: see Backend::IsHost.
  virtual std::byte* Allocate(std::size_t bytes) = 0;
  // Requires: Allocate(bytes) returned `memory`, and no work that uses it is queued.
  virtual void Free(std::byte* memory, std::size_t bytes) = 0;
};

// The process's own memory, in huge pages if the kernel grants them.
MemorySource& HostMemory();

}  // namespace lockstep::train
