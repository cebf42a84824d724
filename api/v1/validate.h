// What a well-formed TrainingJob must also satisfy. Pure; every fault is reported, not the first.
#pragma once

#include <string>
#include <vector>

#include "api/v1/field_error.h"
#include "api/v1/training_job.h"

namespace lockstep::api {

// Expects a job that WithDefaults has completed.
std::vector<FieldError> Validate(const TrainingJob& job);

// The `training` section alone, as a trainer finds it in LOCKSTEP_CONFIG. `path` prefixes the
// errors.
std::vector<FieldError> ValidateTraining(const TrainingSpec& training, const std::string& path);

}  // namespace lockstep::api
