// Runs a program for what it prints.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace lockstep::kube {

// Standard input is empty, standard error is ours. `extra_env` is added to our environment. A
// `command` without a slash is looked up in PATH. NotFound: there is no such program;
// DeadlineExceeded after `timeout`, when it is killed; Internal names its exit status. Output above
// a megabyte is refused.
absl::StatusOr<std::string> RunProgram(const std::string& command,
                                       const std::vector<std::string>& args,
                                       const std::map<std::string, std::string>& extra_env,
                                       Duration timeout);

}  // namespace lockstep::kube
