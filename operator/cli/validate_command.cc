#include "operator/cli/validate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/job_file.h"

namespace lockstep::cli {

CLI::App* AddValidateCommand(CLI::App& app, ValidateOptions& options) {
  CLI::App* command = app.add_subcommand("validate", "List every fault of a TrainingJob");
  AddJobFileOptions(*command, options.job);
  return command;
}

int RunValidate(const ValidateOptions& options) {
  const absl::StatusOr<JobFile> loaded = LoadJobFile(options.job);
  if (!loaded.ok()) return Fail(kExitUsage, loaded.status());
  fmt::print("{}: TrainingJob {} is valid\n", loaded->source, loaded->job.metadata.name);
  return kExitDone;
}

}  // namespace lockstep::cli
