// How long a job's TF_CONFIG is. Pure.
#pragma once

#include <cstddef>

#include "api/v1/training_job.h"

namespace lockstep::api {

// Bytes: Linux starts no program with a variable that is longer than 128 KiB.
inline constexpr std::size_t kLongestTfConfig = 100'000;

// As the role's replicas get it, with addresses of a cluster's DNS. It names every replica, but for
// the workers and parameter servers of an elastic job with parameter servers.
std::size_t TfConfigSize(const TrainingJob& job, Role role);

// True if the role's program is known to read TF_CONFIG: the bundled trainer's, or that of a main
// container called "tensorflow". Other programs do without one that is too long.
bool NeedsTfConfig(const TrainingJob& job, Role role);

}  // namespace lockstep::api
