// The memory that this machine or container has, and what of it can still be allocated. Linux
// overcommits and kills processes later, so callers check before a large allocation.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::train {

// Returns the bytes available to this machine or this container, whichever is less. Returns the
// largest value if unknown.
std::uint64_t AvailableMemory();
// The same for the control group whose files are in the folder `root`: of version 2, or of version
// 1 in its folder `memory`.
std::uint64_t AvailableInCgroup(const std::string& root);

// Returns the bytes of memory that this machine has or this container may use, whichever is less,
// whoever uses them now. Returns the largest value if unknown.
std::uint64_t MemoryLimit();
// The same for a control group, as for AvailableInCgroup.
std::uint64_t LimitOfCgroup(const std::string& root);

}  // namespace lockstep::train
