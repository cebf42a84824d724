// Kubernetes quantities: "500m", "2", "1.5", "4Gi", "1e3". Pure.
#pragma once

#include "absl/status/statusor.h"
#include "operator/kube/object.h"

namespace lockstep::local {

// `quantity` is a string or a number, as YAML has it. InvalidArgument says what was found.
absl::StatusOr<double> ParseQuantity(const kube::Object& quantity);

}  // namespace lockstep::local
