// `lockstep top [JOB]`.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"
#include "operator/cli/top/looks.h"

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

// Prints what happens between two looks, on a terminal over what was before, until all jobs are
// over or, with `once`, one time. `wait` pauses between looks; false ends the program's work.
// Errors: those of the first look, later ones but Unavailable; with `once`, Unavailable if no
// replica's metrics could be read.
absl::Status ShowTop(const TopOptions& options,
                     const std::function<absl::StatusOr<std::vector<SeenJob>>()>& look,
                     const std::function<bool()>& wait, std::FILE* out);

}  // namespace lockstep::cli
