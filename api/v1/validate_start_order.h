// The parts of Validate and ValidateNew that concern replicaSpecs.*.dependsOn.
#pragma once

#include <vector>

#include "api/v1/training_job.h"
#include "base/field_error.h"

namespace lockstep::api {

// Rejects what is incomplete, and an order in which a role would wait for ever: for one that the
// job lacks, for itself, or for the end of one that ends only with the job.
void ValidateStartOrder(const TrainingJobSpec& spec, std::vector<FieldError>& errors);

// Rejects a Chief and workers of a framework (a container named tensorflow, pytorch or jax) of
// which one role starts after the other's end. Their environment counts both roles, so each program
// would wait for ranks that have ended, or do not exist yet.
void ValidateWorld(const TrainingJobSpec& spec, std::vector<FieldError>& errors);

}  // namespace lockstep::api
