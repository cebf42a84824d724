// The conditions of a TrainingJob's status.
#pragma once

#include <string_view>

#include "api/v1/training_job.h"

namespace lockstep::api {

// Types.
inline constexpr char kCreated[] = "Created";
inline constexpr char kRunning[] = "Running";
inline constexpr char kRestarting[] = "Restarting";
inline constexpr char kSuspended[] = "Suspended";
inline constexpr char kSucceeded[] = "Succeeded";
inline constexpr char kFailed[] = "Failed";

// Null if there is none of the type.
const Condition* FindCondition(const TrainingJobStatus& status, std::string_view type);
bool IsTrue(const TrainingJobStatus& status, std::string_view type);

}  // namespace lockstep::api
