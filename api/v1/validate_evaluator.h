// The parts of Validate that concern the bundled trainer's Evaluator.
#pragma once

#include <vector>

#include "api/v1/training_job.h"
#include "base/field_error.h"

namespace lockstep::api {

// Checks what an Evaluator needs of `training`, and that its pod mounts a volume where the leading
// pod mounts that of the checkpoints. Whether two volumes have the same content cannot be told from
// a job.
void ValidateEvaluator(const TrainingJob& job, std::vector<FieldError>& errors);

}  // namespace lockstep::api
