// Reports how a run ended: for users, for programs, and as an exit code. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/v1/training_job.h"
#include "operator/cli/exit_codes.h"

namespace lockstep::cli {

struct RunReport {
  enum class End { kFinished, kInterrupted, kTimedOut };
  End end = End::kFinished;
  api::TrainingJobStatus status;
  double seconds = 0;
  std::string work_dir, logs;
  std::string checkpoint, summaries;  // empty if there is none
  std::string resumed_from;           // the newest checkpoint before the run; empty if none
};

// Returns kExitDone, kExitInterrupted or kExitTimedOut; for a job that failed, the failing
// replica's exit code if it has one in the range of kExitReplicaFailed, else kExitRunFailed.
ExitCode ExitCodeOfRun(const RunReport& report);

// Returns state, steps, loss, accuracy, test_accuracy, test_loss, images_per_second, checkpoint,
// resumed_from, restarts, work_dir, logs, summaries, seconds, failure, and for an Independent job
// variants, a list of what its status says of them. Unknown values are null.
nlohmann::ordered_json ToJson(const RunReport& report);

// Returns one or more lines, each ended by a newline.
std::string ToText(const RunReport& report);

}  // namespace lockstep::cli
