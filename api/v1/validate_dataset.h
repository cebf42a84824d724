// ValidateDataset: checks the `dataset` of the `training` section, whose path `section` has.
#pragma once

#include "api/v1/section.h"
#include "api/v1/training_job.h"

namespace lockstep::api {

// Adds what a job's fields alone show to be wrong; the trainer checks the rest when it has opened
// the files. Pure.
void ValidateDataset(const DatasetSpec& dataset, Section& section);

}  // namespace lockstep::api
