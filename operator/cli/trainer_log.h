// The last word of the bundled trainer, from its logs: a pod may end before anybody has asked it
// for its final figures.
#pragma once

#include <string>
#include <vector>

#include "api/v1/training_job.h"

namespace lockstep::cli {

// Brings `progress` up to what these logs say was reached: epochs' means, evaluations, checkpoints.
// Lines that are no records of the trainer are passed over.
void AddLoggedResults(const std::vector<std::string>& log_paths,
                      std::optional<api::Progress>& progress);

}  // namespace lockstep::cli
