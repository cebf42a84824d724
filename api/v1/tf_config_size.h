// The size of a job's TF_CONFIG. Pure.
#pragma once

#include <cstddef>

#include "api/v1/training_job.h"

namespace lockstep::api {

// In bytes. Linux does not start a program with an environment variable longer than 128 KiB.
inline constexpr std::size_t kLongestTfConfig = 100'000;

// Estimates the TF_CONFIG of the role's replicas with a cluster's DNS names. It names every
// replica, except in an elastic job with parameter servers, whose workers and parameter servers see
// only the parameter servers and themselves.
std::size_t TfConfigSize(const TrainingJob& job, Role role);

// Returns true if the role's program is known to read TF_CONFIG: the bundled trainer, or a main
// container named "tensorflow". Other programs get none if it would be too long.
bool NeedsTfConfig(const TrainingJob& job, Role role);

}  // namespace lockstep::api
