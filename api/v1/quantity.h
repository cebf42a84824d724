// Kubernetes quantities: "500m", "2", "1.5", "4Gi", "1e3". Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"

namespace lockstep::api {

// `quantity` is a string or a number, as YAML has it. InvalidArgument says what was found.
absl::StatusOr<double> ParseQuantity(const Json& quantity);

// The shortest form without a suffix, else in thousandths, rounded up: "4294967296", "1500m".
// `value` is at least 0.
std::string FormatQuantity(double value);

}  // namespace lockstep::api
