// How much memory there is to be had. Linux gives out what it has not got and kills processes
// later, so whoever needs much asks first.
#pragma once

#include <cstdint>

namespace lockstep::train {

// Bytes, of this machine or of this container, whichever is less. The largest value: cannot be
// told.
std::uint64_t AvailableMemory();

}  // namespace lockstep::train
