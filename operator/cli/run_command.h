// `lockstep run FILE`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"

namespace lockstep::cli {

struct RunOptions {
  JobFileOptions job;
  std::string work_dir;              // empty: runs/<job>
  std::string output = "text";       // or json: one object on stdout at the end
  std::vector<std::string> volumes;  // --volume NAME=PATH
  std::optional<double> timeout_seconds;
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddRunCommand(CLI::App& app, RunOptions& options);

// Runs the job until it ends, until SIGINT, SIGTERM or SIGHUP, until the timeout, or until a line
// cannot be printed because whoever read stdout has ended; returns the exit code.
ExitCode RunRun(const RunOptions& options);

}  // namespace lockstep::cli
