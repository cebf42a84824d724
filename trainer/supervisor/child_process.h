// Starting a process that does not outlive us, and saying how one ended.
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
  std::map<std::string, std::string> env;  // on top of our own
  std::vector<int> fds;                    // kept open in the child, beside 0, 1 and 2
  sigset_t signal_mask;                    // the child's
};

// The kernel kills the child with SIGKILL when the calling thread ends: call it on the main thread.
// NotFound, PermissionDenied, …: names the program and why it cannot be executed.
absl::StatusOr<pid_t> StartChild(const ChildSpec& spec);

// The shell's convention: the exit code, or 128 + the signal's number.
int ExitCodeOf(int wait_status);
std::string DescribeExit(int wait_status);  // "exit code 11", "signal 9 (Killed)"

}  // namespace lockstep::train
