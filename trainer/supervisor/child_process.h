// Starts child processes that do not outlive this one, and describes how they ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::train {

struct ChildSpec {
  std::vector<std::string> argv;           // argv[0] is a path
  std::map<std::string, std::string> env;  // overrides this process's environment
  std::vector<int> fds;                    // inherited by the child, in addition to 0, 1 and 2
  sigset_t signal_mask;                    // the child's
};

// Starts a child and returns once it has executed the program. The kernel sends the child SIGKILL
// when the calling thread ends. Requires: called on the main thread. NotFound, PermissionDenied, …:
// names the program and why it cannot be executed.
absl::StatusOr<pid_t> StartChild(const ChildSpec& spec);

// Returns the exit code, or 128 + the signal's number, as shells do.
int ExitCodeOf(int wait_status);
std::string DescribeExit(int wait_status);  // "exit code 11", "signal 9 (Killed)"

}  // namespace lockstep::train
