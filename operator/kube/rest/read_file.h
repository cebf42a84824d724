#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::kube {

// Returns a small file's text. NotFound, or PermissionDenied for any other failure; the message
// names the file and `what` it should provide.
absl::StatusOr<std::string> ReadFile(const std::string& path, const char* what);

}  // namespace lockstep::kube
