// A trainer's final progress. The trainer writes it as JSON to its container's termination message,
// and the kubelet copies it into the pod's status. So the final figures reach the job even if the
// trainer was not polled between its last step and its end.
#pragma once

#include <optional>
#include <string>

#include "api/v1/training_job.h"

namespace lockstep::api {

// Returns the fields of status.progress. Omits values that are not finite.
Json ProgressToJson(const Progress& progress);

// Returns true if a status may hold the progress. The API server rejects a whole status for one
// value out of range, so a trainer's report, which may come from any program, must be checked.
bool IsInRange(const Progress& progress);

// Returns the progress in `message`; nullopt if `message` is anything else, such as the last lines
// of a log, or is out of range.
std::optional<Progress> ProgressFromMessage(const std::string& message);

}  // namespace lockstep::api
