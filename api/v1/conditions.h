// The conditions of a TrainingJob's status.
#pragma once

#include <string_view>

#include "api/v1/training_job.h"

namespace lockstep::api {

// Condition types.
inline constexpr char kCreated[] = "Created";
inline constexpr char kRunning[] = "Running";
inline constexpr char kRestarting[] = "Restarting";
inline constexpr char kSuspended[] = "Suspended";
inline constexpr char kSucceeded[] = "Succeeded";
inline constexpr char kFailed[] = "Failed";

// FindCondition returns null if there is no condition of the type; IsTrue returns false then.
const Condition* FindCondition(const TrainingJobStatus& status, std::string_view type);
bool IsTrue(const TrainingJobStatus& status, std::string_view type);

// Returns true if the job has ended: it has succeeded or failed.
bool IsTerminal(const TrainingJobStatus& status);

}  // namespace lockstep::api
