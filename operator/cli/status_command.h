// `lockstep status [JOB]`.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "operator/kube/client.h"

namespace lockstep::cli {

struct StatusOptions {
  std::string job;             // empty: all
  std::string namespace_name;  // empty: all
  bool watch = false;          // continue until all jobs shown have ended
};

// Prints a table of TrainingJobs, and for a single job its details. When watching, redraws the
// table in place on a terminal, and elsewhere prints a new one when it differs. `wait` pauses
// between polls; false ends the watch. NotFound if `job` does not exist. Aborted names a job that
// was watched to its end and failed.
absl::Status ShowStatus(kube::Client& client, const StatusOptions& options, const Clock& clock,
                        std::FILE* out, const std::function<bool()>& wait);

}  // namespace lockstep::cli
