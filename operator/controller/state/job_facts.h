// What the object of a job alone says of it. Pure.
#pragma once

#include "api/v1/training_job.h"

namespace lockstep::controller {

// Returns true if the deletion of the job has begun.
bool IsBeingDeleted(const api::TrainingJob& job);

// Returns true if spec.managedBy names another controller.
bool IsForeign(const api::TrainingJob& job);

}  // namespace lockstep::controller
