// Defaults of fields that the user left out. Pure and idempotent.
#pragma once

#include "api/v1/training_job.h"

namespace lockstep::api {

// The type of a strategy that names none.
StrategyType DefaultStrategy(const TrainingJobSpec& spec);

// Fills in strategy (with `training`), processesPerPod, parameterServer (with its strategy),
// restartScope, successPolicy, restartPolicy and dataset.synthetic (with its format).
TrainingJob WithDefaults(TrainingJob job);

// Returns true if the bundled trainer runs in the job's pods.
bool UsesBundledTrainer(const TrainingJob& job);
// Returns true if these pods also form a group, whose leader reports progress and missing members.
// Processes that train alone form none.
bool HasTrainingGroup(const TrainingJob& job);

}  // namespace lockstep::api
