// Runs a program and returns its output.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/launch.h"

namespace lockstep::kube {

// Returns the program's standard output. Its standard input is empty; it inherits standard error
// and no other descriptor. Adds `extra_env` to the environment. Looks up a `command` without a
// slash in this process's PATH. NotFound: there is no such program. DeadlineExceeded: `timeout` has
// passed, and the program was killed with what it had started. Internal: the program failed, as the
// message says, or printed more than 1 MiB. Other codes: it cannot be executed.
absl::StatusOr<std::string> RunProgram(const std::string& command,
                                       const std::vector<std::string>& args,
                                       const Environment& extra_env, Duration timeout);

}  // namespace lockstep::kube
