// An error in user input, and where it is.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep {

struct FieldError {
  std::string path;     // "spec.training.batchSize"
  std::string message;  // "found both global and perReplica, expected exactly one"
  bool operator==(const FieldError&) const = default;
};

// Returns InvalidArgument with one "path: message" per line, or OK if `errors` is empty.
absl::Status ToStatus(const std::vector<FieldError>& errors);

}  // namespace lockstep
