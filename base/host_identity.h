// What tells this host, and its processes' numbers, from others'.
#pragma once

#include <string>

namespace lockstep {

// Returns an id of the running kernel: containers on a host have the same one, and two hosts never
// do. Empty if it cannot be read.
std::string BootId();

// Returns which numbers processes have: those of a container have others than those outside. Empty
// if it cannot be read.
std::string PidNamespace();

}  // namespace lockstep
