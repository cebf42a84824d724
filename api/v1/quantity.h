// Kubernetes quantities: "500m", "2", "1.5", "4Gi", "1e3". Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"

namespace lockstep::api {

// Parses a string or a number, as YAML has it. Returns InvalidArgument, quoting the input, if it is
// not a quantity.
absl::StatusOr<double> ParseQuantity(const Json& quantity);

// Returns the value without a suffix if it is whole, else in thousandths, rounded up: "4294967296",
// "1500m". Requires: `value` is at least 0.
std::string FormatQuantity(double value);

}  // namespace lockstep::api
