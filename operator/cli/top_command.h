// `lockstep top [JOB]`.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"
#include "operator/cli/top/top_text.h"
#include "operator/kube/rest/rest_client.h"

namespace lockstep::cli {

struct TopOptions {
  ClusterOptions cluster;
  std::string job;              // empty: all that run
  std::string work_dir;         // of a run on this machine; empty: a cluster's jobs
  double interval = 2;          // seconds
  bool once = false;            // one interval
  std::string output = "text";  // or json: a line with an object for each job and interval
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddTopCommand(CLI::App& app, TopOptions& options);

// Shows the job's times on stdout. Returns the exit code.
ExitCode RunTop(const TopOptions& options);

// A job at one look.
struct SeenJob {
  JobTop top;  // all but `times`
  std::vector<RankMetrics> ranks;
  bool over = false;
};

// What a look has for the metrics of pods, which can be silent.
inline constexpr Duration kLookTime = std::chrono::seconds(5);

// Looks at the jobs of a namespace that use the bundled trainer: at `job`, or at those that have
// not ended if it is empty. Each job has its part of `most` for reading its pods, but at least 1 s,
// so that a look at silent pods takes as many seconds as there are jobs if that is more. Listing
// jobs and pods takes nothing from it. Pods that have not answered by then are unread.
// FailedPrecondition: `job` does not use the trainer. Other errors are those of the client.
absl::StatusOr<std::vector<SeenJob>> LookAtCluster(kube::RestClient& client,
                                                   const std::string& namespace_name,
                                                   const std::string& job,
                                                   Duration most = kLookTime);

// Looks at the run of a work directory, until it has ended. FailedPrecondition: there is none.
absl::StatusOr<std::vector<SeenJob>> LookAtRun(const std::string& work_dir);

// Prints what happens between two looks, on a terminal over what was before, until all jobs are
// over or, with `once`, one time. `wait` pauses between looks; false ends the program's work.
// Errors: those of the first look, later ones but Unavailable; with `once`, Unavailable if no
// replica's metrics could be read.
absl::Status ShowTop(const TopOptions& options,
                     const std::function<absl::StatusOr<std::vector<SeenJob>>()>& look,
                     const std::function<bool()>& wait, std::FILE* out);

}  // namespace lockstep::cli
