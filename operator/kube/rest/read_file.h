#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::kube {

// A small file's text. NotFound or PermissionDenied name it and `what` it is to give.
absl::StatusOr<std::string> ReadFile(const std::string& path, const char* what);

}  // namespace lockstep::kube
