// `lockstep run FILE`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

struct RunCommandOptions {
  std::string file;
  std::string work_dir;              // empty: runs/<job>
  bool json = false;                 // --output json: prints one object on stdout at the end
  std::vector<std::string> sets;     // --set PATH=VALUE
  std::vector<std::string> volumes;  // --volume NAME=PATH
  std::optional<double> timeout_seconds;
};

// Runs the job until it ends, until SIGINT, SIGTERM or SIGHUP, or until the timeout; returns the
// exit code.
int RunJob(const RunCommandOptions& options);

}  // namespace lockstep::cli
