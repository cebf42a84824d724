// What the CRD's schema says of layers. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/v1/training_job.h"
#include "base/field_error.h"

namespace lockstep::api {

// Validates the layers of `training` and of its variants: their types, and the names and values of
// their fields. For readers of files, which no API server has checked; an operator must accept the
// layers of a newer CRD, and has Validate. Only the trainer knows which fields a type takes, and
// which shapes fit.
std::vector<FieldError> ValidateLayers(const TrainingSpec& training, const std::string& path);

}  // namespace lockstep::api
