// The token of a job that runs on one machine: other users of it can reach its loopback addresses.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "api/v1/job_token.h"

namespace lockstep::local {

// A new random token, in a file that only this user can read; one that is there is replaced.
// Errors name the path and the system's reason.
absl::StatusOr<api::JobToken> MakeTokenFile(const std::string& path);

}  // namespace lockstep::local
