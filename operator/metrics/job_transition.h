// Derives what happened to a job from two versions of its status. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/v1/training_job.h"

namespace lockstep::metrics {

struct JobTransition {
  bool created = false;    // seen for the first time, and without a status yet
  bool succeeded = false;  // became true with this version, as does failed
  bool failed = false;
  std::string failure_reason;  // of the Failed condition
  int application_restarts = 0, disruption_restarts = 0, evaluator_restarts = 0;  // since `before`
  std::optional<double> seconds_to_running;  // from the job's start to its first run
  // From the start of a restart of all replicas after a loss to running again; see Recoveries for
  // those where the others stay.
  std::optional<double> seconds_to_recover;
};

// `before` is null for a job that is seen for the first time.
JobTransition Compare(const api::TrainingJob* before, const api::TrainingJob& after);

// Returns when the job failed because a number of the bundled trainer was no longer finite; nullopt
// if it did not. Exit code 20 of any other program has no known meaning.
std::optional<Time> DivergedAt(const api::TrainingJob& job);

// Returns how many variants of an Independent job have ended because their numbers were no longer
// finite, which does not fail the job.
std::int64_t DivergedVariants(const api::TrainingJob& job);

}  // namespace lockstep::metrics
