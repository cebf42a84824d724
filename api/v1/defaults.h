// What a field means when the user left it out. Pure and idempotent.
#pragma once

#include "api/v1/training_job.h"

namespace lockstep::api {

// Fills strategy (with `training`), processesPerPod, restartScope, successPolicy, restartPolicy.
TrainingJob WithDefaults(TrainingJob job);

// True if the bundled trainer runs in the job's pods.
bool UsesBundledTrainer(const TrainingJob& job);

}  // namespace lockstep::api
