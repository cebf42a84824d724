// Reads the reports that programs post, in the form of Kubeflow Trainer's status server (KEP-2779).
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "operator/controller/state/progress_reports.h"

namespace lockstep::progress {

// Reads {"trainerStatus": {"progressPercentage": 45, "estimatedRemainingSeconds": 60, "metrics":
// [{"name": "loss", "value": "0.25"}]}}, of which each part may be absent. Unknown fields and
// metrics are ignored, and so are values of known metrics that are no finite numbers, or out of
// range. Returns InvalidArgument, in words for the program's author, if the text is no such
// object. Pure.
absl::StatusOr<controller::ProgressReport> ReadReport(std::string_view json);

}  // namespace lockstep::progress
