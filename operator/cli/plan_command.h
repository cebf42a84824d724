// `lockstep plan FILE`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"

namespace lockstep::cli {

struct PlanOptions {
  JobFileOptions job;
  std::string work_dir;              // empty: runs/<job>
  std::vector<std::string> volumes;  // --volume NAME=PATH
  std::string output = "text";       // or json
  // Say of the data set what is not to be read.
  std::optional<std::int64_t> samples, classes;
  std::string sample_shape;  // "3,224,224"; empty: not given
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddPlanCommand(CLI::App& app, PlanOptions& options);

// Prints what the job would do and need; returns the exit code.
ExitCode RunPlan(const PlanOptions& options);

}  // namespace lockstep::cli
