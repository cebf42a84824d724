// What a well-formed TrainingJob must also satisfy. Pure; every fault is reported, not the first.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/v1/training_job.h"

namespace lockstep::api {

struct FieldError {
  std::string path;      // "spec.training.batchSize"
  std::string message;   // "found both global and perReplica, expected exactly one"
  bool operator==(const FieldError&) const = default;
};

// Expects a job that WithDefaults has completed.
std::vector<FieldError> Validate(const TrainingJob& job);

// InvalidArgument with one "path: message" per line, or Ok if there are none.
absl::Status ToStatus(const std::vector<FieldError>& errors);

}  // namespace lockstep::api
