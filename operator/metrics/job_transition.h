// What a new version of a job's status says has happened since the version before. Pure.
#pragma once

#include <optional>
#include <string>

#include "api/v1/training_job.h"

namespace lockstep::metrics {

struct JobTransition {
  bool created = false;    // seen for the first time, and nobody has written its status yet
  bool succeeded = false;  // these two: now, and not before
  bool failed = false;
  std::string failure_reason;                             // of the Failed condition
  int application_restarts = 0, disruption_restarts = 0;  // more than before
  std::optional<double> seconds_to_running;               // from its start to the first time it ran
  std::optional<double> seconds_to_recover;  // from the beginning of a restart to running again
};

// `before` is null for a job that was not known.
JobTransition Compare(const api::TrainingJob* before, const api::TrainingJob& after);

// When the job failed because a number of the bundled trainer's was no longer finite; nothing if it
// has not. What exit code 20 of another program means, that program alone knows.
std::optional<Time> DivergedAt(const api::TrainingJob& job);

}  // namespace lockstep::metrics
