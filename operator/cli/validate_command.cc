#include "operator/cli/validate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "base/printable.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/files/job_file.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

// Each line of the error is a fault, and begins with the name of the file.
Json FaultsOf(const absl::Status& status, const std::string& source) {
  Json faults = Json::array();
  std::istringstream lines{std::string(status.message())};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(source + ": ")) line.erase(0, source.size() + 2);
    faults.push_back(std::move(line));
  }
  return faults;
}

}  // namespace

CLI::App* AddValidateCommand(CLI::App& app, ValidateOptions& options) {
  CLI::App* command = app.add_subcommand("validate", "List the faults of a TrainingJob");
  AddJobFileOptions(*command, options.job);
  AddOutputOption(*command, options.output, {"text", "json"},
                  "text, or json: one object on stdout, also if the job has faults");
  return command;
}

ExitCode RunValidate(const ValidateOptions& options) {
  const absl::StatusOr<JobFile> loaded = LoadJobFile(options.job);
  if (options.output == "json") {
    const std::string source = SourceOf(options.job.file);
    const Json report = {{"file", source},
                         {"job", loaded.ok() ? Json(loaded->job.metadata.name) : Json(nullptr)},
                         {"valid", loaded.ok()},
                         {"faults", FaultsOf(loaded.status(), source)}};
    fmt::print("{}\n", AsciiJson(report));
    return loaded.ok() ? kExitDone : kExitUsage;
  }
  if (!loaded.ok()) return Fail(kExitUsage, loaded.status());
  fmt::print("{}: TrainingJob {} is valid\n", Printable(loaded->source), loaded->job.metadata.name);
  return kExitDone;
}

}  // namespace lockstep::cli
