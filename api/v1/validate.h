// Checks that go beyond well-formedness. Pure. Reports every error, not only the first.
#pragma once

#include <string>
#include <vector>

#include "api/v1/training_job.h"
#include "base/field_error.h"

namespace lockstep::api {

using lockstep::ToStatus;

// Validates a job. Requires: WithDefaults has completed it.
std::vector<FieldError> Validate(const TrainingJob& job);

// Validates a job that is to be created, as an API server does: also rejects what earlier versions
// accepted and what does not work. Jobs that have it go on, so an operator asks Validate alone.
std::vector<FieldError> ValidateNew(const TrainingJob& job);

// Validates only the `training` section, as a trainer gets it in LOCKSTEP_CONFIG. `path` prefixes
// the paths of the errors.
std::vector<FieldError> ValidateTraining(const TrainingSpec& training, const std::string& path);

}  // namespace lockstep::api
