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

// Validates only the `training` section, as a trainer gets it in LOCKSTEP_CONFIG. `path` prefixes
// the paths of the errors.
std::vector<FieldError> ValidateTraining(const TrainingSpec& training, const std::string& path);

}  // namespace lockstep::api
