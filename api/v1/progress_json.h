// A trainer's last word: it writes its final progress, as JSON, to the termination message of its
// container, from where the kubelet brings it into the pod's status. So the final figures reach
// the job even if nobody asked the trainer between its last step and its end.
#pragma once

#include <optional>
#include <string>

#include "api/v1/training_job.h"

namespace lockstep::api {

// The fields of status.progress. Values that are not finite are left out.
Json ProgressToJson(const Progress& progress);

// True if a status may hold it: the API server refuses a whole status for one value out of range,
// so what a trainer says, whoever that is, is looked at before it is believed.
bool IsInRange(const Progress& progress);

// Nothing if `message` is anything but that, such as the last lines of a log, or out of range.
std::optional<Progress> ProgressFromMessage(const std::string& message);

}  // namespace lockstep::api
