// `lockstep convert FILE`.
#pragma once

#include <string>

#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"

namespace lockstep::cli {

struct ConvertOptions {
  std::string file;  // "-": standard input
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddConvertCommand(CLI::App& app, ConvertOptions& options);

// Prints each TFJob, PyTorchJob and JAXJob of the file, also those in a List, as a TrainingJob and
// everything else unchanged; prints notes to stderr. Returns the exit code: that of wrong usage if
// a job cannot be converted or there is none.
ExitCode RunConvert(const ConvertOptions& options);

}  // namespace lockstep::cli
