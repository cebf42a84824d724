// Finds processes by a mark in their environment, which their descendants inherit: so a daemon that
// left its parent, group and session is still found.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::local {

inline constexpr char kMarkVariable[] = "LOCKSTEP_SANDBOX";

// Returns the ids of all processes of this machine.
std::vector<pid_t> ProcessIds();

// Returns the parent's id, or 0 if there is no such process.
pid_t ParentOf(pid_t pid);

enum class Mark : std::uint8_t {
  kNone,  // no mark or another one, another user's process, or an ended process
  kFound,
  kExecuting,  // in an exec, without an environment: ask again
};

// Returns kFound if the process's mark begins with `prefix`. Marks are paths, "<run>/<pod
// uid>/<container>/", so a prefix that ends with a slash selects a run, a pod or a container.
Mark MarkOf(pid_t pid, const std::string& prefix);

// Calls `end(pid)`, which returns whether it killed the process, for each process of `ids()` whose
// mark begins with `prefix`, and repeats until nothing more is killed: a round may reveal processes
// that were started, or were executing, during the last. Waits at most 5 seconds for an exec that
// hangs, on a disk that does not respond.
void KillMarked(const std::string& prefix, const std::function<std::vector<pid_t>()>& ids,
                const std::function<bool(pid_t)>& end);

}  // namespace lockstep::local
