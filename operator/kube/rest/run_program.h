// Runs a program and returns its output.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace lockstep::kube {

// Returns the program's standard output. Its standard input is empty; it inherits standard error.
// Adds `extra_env` to the environment. Looks up a `command` without a slash in PATH. NotFound:
// there is no such program. DeadlineExceeded: `timeout` has passed and the program was killed.
// Internal: the program failed, as the message says, or printed more than 1 MiB.
absl::StatusOr<std::string> RunProgram(const std::string& command,
                                       const std::vector<std::string>& args,
                                       const std::map<std::string, std::string>& extra_env,
                                       Duration timeout);

}  // namespace lockstep::kube
