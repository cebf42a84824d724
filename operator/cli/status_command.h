// `lockstep status [JOB]`.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"
#include "operator/kube/client.h"

namespace lockstep::cli {

struct StatusOptions {
  ClusterOptions cluster;
  std::string job;  // empty: all
  bool all_namespaces = false;
  std::string output = "text";  // text, wide, json or yaml
  std::optional<bool>
      watch;  // until all jobs shown have ended; nullopt: if text goes to a terminal
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddStatusCommand(CLI::App& app, StatusOptions& options);

// Connects to the cluster and shows its jobs on stdout. Returns the exit code.
ExitCode RunStatus(const StatusOptions& options);

// What RunStatus does once connected: prints a table of the namespace's TrainingJobs to `out`, and
// for a single job its details. When watching, redraws the table in place on a terminal, and
// elsewhere prints a new one when it differs. With `output` json or yaml, prints documents instead:
// the jobs by namespace and name, with their status as the API has it. `wait` pauses between polls;
// false ends the watch. A watch goes on over an outage of the server, of 30 polls at most, once the
// first poll has succeeded. NotFound if the job does not exist. Aborted names the jobs that were
// watched to their end and failed: `job` or, of all jobs, those that had not ended at the first
// poll.
absl::Status ShowStatus(kube::Client& client, const std::string& namespace_name,
                        const StatusOptions& options, const Clock& clock, std::FILE* out,
                        const std::function<bool()>& wait);

}  // namespace lockstep::cli
