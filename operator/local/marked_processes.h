// Processes that are known by a mark in their environment, which what they start inherits: so a
// daemon that left its parent, its group and its session is still found.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::local {

inline constexpr char kMarkVariable[] = "LOCKSTEP_SANDBOX";

// Every process of this machine that we may look at.
std::vector<pid_t> ProcessIds();

// 0 if there is no such process.
pid_t ParentOf(pid_t pid);

enum class Mark : std::uint8_t {
  kNone,  // another mark or none, a process of another user, one that has ended
  kFound,
  kExecuting,  // in the middle of an exec, without an environment: ask again
};

// kFound if the process's mark begins with `prefix`. Marks are paths,
// "<run>/<pod uid>/<container>/", so a prefix that ends with a slash names a run, a pod or a
// container.
Mark MarkOf(pid_t pid, const std::string& prefix);

// Kills each process of `ids()` whose mark begins with `prefix`, by `end(pid)`, which is false
// where it could not, and looks again until nothing more is killed: each round may uncover what a
// process started while the last one looked, and whose exec was under way. An exec that hangs, on a
// disk that does not answer, is waited for 5 seconds at most.
void KillMarked(const std::string& prefix, const std::function<std::vector<pid_t>()>& ids,
                const std::function<bool(pid_t)>& end);

}  // namespace lockstep::local
