// Asks `lockstep-trainer plan` about a job: this program then links no code of the trainer, and the
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

// Returns the JSON object that the trainer prints; docs/cli.md describes it. The trainer is this
// machine's. It gets this program's environment without TF_CONFIG and LOCKSTEP_*, and of the
// leading pod's environment only what describes the job and this replica, with the paths in volumes
// replaced by those on this machine. InvalidArgument: as for CheckPods, or the trainer refuses the
// job, its data or an argument; says why. Unavailable: lockstep-trainer cannot be started.
// Internal: it has ended without a plan.
absl::StatusOr<nlohmann::ordered_json> AskForPlan(const PlanRequest& request);

}  // namespace lockstep::cli
