// `lockstep export CHECKPOINT FILE`.
#pragma once

#include <string>

#include "operator/cli/exit_codes.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 is named so
class App;
}

namespace lockstep::cli {

struct ExportOptions {
  std::string checkpoint, file;
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddExportCommand(CLI::App& app, ExportOptions& options);

// Runs `lockstep-trainer export`, which prints the result to stdout, or to stderr what is wrong.
// Returns the exit code.
ExitCode RunExport(const ExportOptions& options);

}  // namespace lockstep::cli
