// The conditions of a TrainingJob's status.
#pragma once

#include <string_view>
#include <utility>

#include "api/v1/training_job.h"

namespace lockstep::api {

// Condition types.
inline constexpr char kCreated[] = "Created";
inline constexpr char kRunning[] = "Running";
inline constexpr char kRestarting[] = "Restarting";
inline constexpr char kSuspended[] = "Suspended";
inline constexpr char kSucceeded[] = "Succeeded";
inline constexpr char kFailed[] = "Failed";

// Why a job has failed: the reasons of its condition kFailed. The one list of them, so that the
// operator's metrics can begin each one's count at 0.
enum class FailureReason {
  kBackoffLimitExceeded,
  kDeadlineExceeded,
  kInvalidSpec,
  kPendingDeadlineExceeded,
  kPodFailurePolicy,
  kPodRejected,
  kProgressDeadlineExceeded,
  kReplicaFailed
};
inline constexpr std::pair<FailureReason, std::string_view> kFailureReasons[] = {
    {FailureReason::kBackoffLimitExceeded, "BackoffLimitExceeded"},
    {FailureReason::kDeadlineExceeded, "DeadlineExceeded"},
    {FailureReason::kInvalidSpec, "InvalidSpec"},
    {FailureReason::kPendingDeadlineExceeded, "PendingDeadlineExceeded"},
    {FailureReason::kPodFailurePolicy, "PodFailurePolicy"},
    {FailureReason::kPodRejected, "PodRejected"},
    {FailureReason::kProgressDeadlineExceeded, "ProgressDeadlineExceeded"},
    {FailureReason::kReplicaFailed, "ReplicaFailed"}};

std::string_view NameOf(FailureReason reason);

// FindCondition returns null if there is no condition of the type; IsTrue returns false then.
const Condition* FindCondition(const TrainingJobStatus& status, std::string_view type);
bool IsTrue(const TrainingJobStatus& status, std::string_view type);

// Returns true if the job has ended: it has succeeded or failed.
bool IsTerminal(const TrainingJobStatus& status);

}  // namespace lockstep::api
