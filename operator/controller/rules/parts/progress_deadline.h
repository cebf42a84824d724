// runPolicy.progressDeadlineSeconds: a job that trains without progress has failed. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// The reason of such a failure, in status.failure and in podFailurePolicy.
inline constexpr std::string_view kProgressDeadlineExceeded = "ProgressDeadlineExceeded";

// Returns true if the deadline may count: the job has one, and the main container of every required
// replica runs or has succeeded. Since when that is so is Observed::complete_since.
bool IsComplete(const Observed& observed);

// Returns the time left until the job counts as stalled, zero or less if it does: for
// progressDeadlineSeconds all required replicas have run, and the leading one has been in training
// steps and finished none. Returns nullopt if the job has no such deadline, or if nobody knows its
// progress.
std::optional<Duration> UntilStalled(const Observed& observed);

// Returns how long until the job must be looked at again for that; nullopt if it is stalled now.
std::optional<Duration> UntilProgressDeadline(const Observed& observed);

// Returns the failure of a stalled job; nullopt if it is not. It is that of the replica which the
// others wait for, if they wait for one and the leading pod has told of it; else that of the
// leading replica, which reports for all. The restartPolicy and podFailurePolicy that decide what
// it counts as are always the leading replica's. The result points into `observed`.
std::optional<PodFailure> FindStall(const Observed& observed);

}  // namespace lockstep::controller
