// Asks `lockstep-trainer plan` about a job. So this program needs nothing of the trainer, and the
// plan is the work of the code that would run the job.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"

namespace lockstep::cli {

struct PlanRequest {
  api::TrainingJob job;                        // completed by WithDefaults; has `training`
  std::string work_dir;                        // absolute; where `run` would keep its volumes
  std::map<std::string, std::string> volumes;  // --volume; absolute paths
  std::vector<std::string> arguments;          // more of the trainer's
};

// Returns the trainer's object; docs/cli.md describes it. The trainer is this machine's, in this
// program's environment. Of the leading pod's environment it gets only what says which job and
// which replica this is, with the paths of its volumes on this machine. InvalidArgument: as of
// CheckPods, or the trainer refuses the job, its data or an argument; says why. Unavailable:
// lockstep-trainer cannot be started. Internal: it has ended without a plan.
absl::StatusOr<nlohmann::ordered_json> AskForPlan(const PlanRequest& request);

}  // namespace lockstep::cli
