// The part of Validate that concerns replicaSpecs.*.dependsOn.
#pragma once

#include <vector>

#include "api/v1/training_job.h"
#include "base/field_error.h"

namespace lockstep::api {

// Rejects what is incomplete, and an order in which a role would wait for ever: for one that the
// job lacks, for itself, or for the end of one that ends only with the job.
void ValidateStartOrder(const TrainingJobSpec& spec, std::vector<FieldError>& errors);

}  // namespace lockstep::api
