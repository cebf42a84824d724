// The memory that can still be allocated. Linux overcommits and kills processes later, so callers
// check before a large allocation.
#pragma once

#include <cstdint>

namespace lockstep::train {

// Returns the bytes available to this machine or this container, whichever is less. Returns the
// largest value if unknown.
std::uint64_t AvailableMemory();

}  // namespace lockstep::train
