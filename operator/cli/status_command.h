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
  bool watch = false;          // go on until every job that is shown has ended
};

// Prints a table of TrainingJobs, for one job also what its row has no room for. Watching, a
// terminal's table is drawn over in place, elsewhere a new one follows when it differs.
// `wait` pauses between looks; false ends the watch. NotFound if `job` does not exist; Aborted,
// naming the job, if one that was watched to its end failed.
absl::Status ShowStatus(kube::Client& client, const StatusOptions& options, const Clock& clock,
                        std::FILE* out, const std::function<bool()>& wait);

}  // namespace lockstep::cli
