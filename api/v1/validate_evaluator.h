// The parts of Validate that concern the bundled trainer's Evaluator.
#pragma once

#include <vector>

#include "api/v1/training_job.h"
#include "base/field_error.h"

namespace lockstep::api {

// Checks what an Evaluator needs of `training`. Whether it sees the checkpoints cannot be told from
// a job: the operator reports CheckpointsNotSeen when the Evaluator says that it does not.
void ValidateEvaluator(const TrainingJob& job, std::vector<FieldError>& errors);

}  // namespace lockstep::api
