// Ids of this host and of the PID namespace that this process is in.
#pragma once

#include <string>

namespace lockstep {

// Returns an id of the running kernel: containers on a host have the same one, and two hosts never
// do. Empty if it cannot be read.
std::string BootId();

// Returns an id of this process's PID namespace. Two processes of one host with the same id see the
// same pids; a container usually has a namespace of its own. Not unique across hosts. Empty if it
// cannot be read.
std::string PidNamespace();

}  // namespace lockstep
