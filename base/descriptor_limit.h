// How many files and sockets this process may have open.
#pragma once

#include <cstddef>

namespace lockstep {

// Raises the limit to the highest that the process may have, and returns it: many a service gets
// 1,024 unless it asks for more.
std::size_t RaiseDescriptorLimit();

}  // namespace lockstep
