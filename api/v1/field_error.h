// A fault in what a user wrote, and where.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep::api {

struct FieldError {
  std::string path;     // "spec.training.batchSize"
  std::string message;  // "found both global and perReplica, expected exactly one"
  bool operator==(const FieldError&) const = default;
};

// InvalidArgument with one "path: message" per line, or Ok if there are none.
absl::Status ToStatus(const std::vector<FieldError>& errors);

}  // namespace lockstep::api
