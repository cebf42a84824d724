// `lockstep validate FILE`.
#pragma once

#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"

namespace lockstep::cli {

struct ValidateOptions {
  JobFileOptions job;
  std::string output = "text";  // or json
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddValidateCommand(CLI::App& app, ValidateOptions& options);

// Prints for each job of the file its faults to stderr, or to stdout that it is valid. Returns the
// exit code.
ExitCode RunValidate(const ValidateOptions& options);

}  // namespace lockstep::cli
