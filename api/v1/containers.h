// The containers of a pod template, of which no more is known than that it is an object.
#pragma once

#include "api/v1/role.h"
#include "api/v1/training_job.h"

namespace lockstep::api {

// Returns the containers of the role's pod template: a list, which is empty if the job has no such
// role, or the template no list of containers. Requires: `spec` outlives the result. Thread-safe.
const Json& ContainersOf(const TrainingJobSpec& spec, Role role);

}  // namespace lockstep::api
