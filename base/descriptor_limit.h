// The limit on files and sockets that this process may have open.
#pragma once

#include <cstddef>

namespace lockstep {

// Raises the limit to the process's hard limit, and returns it. Services often start with only
// 1,024.
std::size_t RaiseDescriptorLimit();

}  // namespace lockstep
