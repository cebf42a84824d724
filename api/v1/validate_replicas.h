// The parts of Validate that concern names, roles, pod templates and size.
#pragma once

#include <cstdint>
#include <vector>

#include "api/v1/training_job.h"
#include "base/field_error.h"

namespace lockstep::api {

// Returns how many processes train: those of the chief and of the workers.
std::int64_t TrainingProcesses(const TrainingJobSpec& spec);

void ValidateNames(const TrainingJob& job, std::vector<FieldError>& errors);
void ValidateReplicas(const TrainingJob& job, std::vector<FieldError>& errors);
// Checks the length of the environment variables that the operator writes.
void ValidateEnvironment(const TrainingJob& job, std::vector<FieldError>& errors);
// Checks the size of what is held for a job: templates, `training` and minResources.
void ValidateSize(const TrainingJobSpec& spec, std::vector<FieldError>& errors);
void ValidateTemplates(const TrainingJob& job, std::vector<FieldError>& errors);

}  // namespace lockstep::api
