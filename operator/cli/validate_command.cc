#include "operator/cli/validate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/printable.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/files/job_file.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

// Each line of the error is a fault, and begins with the name of the file.
void AddFaults(const absl::Status& status, const std::string& source, Json& faults) {
  std::istringstream lines{std::string(status.message())};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(source + ": ")) line.erase(0, source.size() + 2);
    faults.push_back(std::move(line));
  }
}

Json ReportOf(const absl::StatusOr<std::vector<CheckedJob>>& jobs, const std::string& source) {
  Json faults = Json::array();
  AddFaults(jobs.status(), source, faults);
  for (const CheckedJob& job : jobs.ok() ? *jobs : std::vector<CheckedJob>{}) {
    AddFaults(job.status, source, faults);
  }
  const bool valid = faults.empty();
  return {{"file", source},
          {"job", valid && jobs->size() == 1 ? Json(jobs->front().name) : Json(nullptr)},
          {"valid", valid},
          {"faults", std::move(faults)}};
}

}  // namespace

CLI::App* AddValidateCommand(CLI::App& app, ValidateOptions& options) {
  CLI::App* command = app.add_subcommand("validate", "List the faults of TrainingJobs");
  AddJobFileOptions(*command, options.job);
  AddOutputOption(*command, options.output, {"text", "json"},
                  "text, or json: one object on stdout, also if there are faults");
  return command;
}

ExitCode RunValidate(const ValidateOptions& options) {
  const std::string source = SourceOf(options.job.file);
  const absl::StatusOr<std::vector<CheckedJob>> jobs = CheckJobFile(options.job);
  if (options.output == "json") {
    const Json report = ReportOf(jobs, source);
    fmt::print("{}\n", AsciiJson(report));
    return report.at("valid").get<bool>() ? kExitDone : kExitUsage;
  }
  if (!jobs.ok()) return Fail(kExitUsage, jobs.status());
  bool valid = true;
  for (const CheckedJob& job : *jobs) {
    valid = valid && job.status.ok();
    if (job.status.ok()) {
      fmt::print("{}: TrainingJob {} is valid\n", Printable(source), job.name);
    } else {
      Fail(kExitUsage, job.status);
    }
  }
  return valid ? kExitDone : kExitUsage;
}

}  // namespace lockstep::cli
