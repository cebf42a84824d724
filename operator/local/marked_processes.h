// Processes that are known by a mark in their environment, which what they start inherits: so a
// daemon that left its parent, its group and its session is still found.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace lockstep::local {

inline constexpr char kMarkVariable[] = "LOCKSTEP_SANDBOX";

// Every process of this machine that we may look at.
std::vector<pid_t> ProcessIds();

// True if the process's mark begins with `prefix`. Marks are paths, "<run>/<pod uid>/<container>/",
// so a prefix that ends with a slash names a run, a pod or a container.
bool HasMark(pid_t pid, const std::string& prefix);

}  // namespace lockstep::local
