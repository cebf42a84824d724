// Reads small files whole.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep {

// Returns a file's content. On failure, the code is that of the failed call (NotFound,
// PermissionDenied, …), and the message names the file and `what` it should provide.
absl::StatusOr<std::string> ReadFile(const std::string& path, std::string_view what);

}  // namespace lockstep
