#include "operator/cli/plan_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <limits>
#include <regex>
#include <utility>

#include "api/v1/defaults.h"
#include "api/v1/enum_names.h"
#include "base/json_text.h"
#include "base/status.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/files/job_file.h"
#include "operator/cli/local/plan_process.h"
#include "operator/cli/text/plan_text.h"

namespace lockstep::cli {
namespace {

std::vector<std::string> ArgumentsOf(const PlanOptions& options) {
  std::vector<std::string> arguments;
  if (options.samples) arguments.push_back(fmt::format("--samples={}", *options.samples));
  if (options.classes) arguments.push_back(fmt::format("--classes={}", *options.classes));
  if (!options.sample_shape.empty()) {
    arguments.push_back("--sample-shape=" + options.sample_shape);
  }
  return arguments;
}

// The roles that wait for others, as in the job's spec.
nlohmann::ordered_json StartOrderOf(const api::TrainingJobSpec& spec) {
  auto order = nlohmann::ordered_json::array();
  for (const auto& [role, replicas] : spec.replica_specs) {
    if (replicas.depends_on.empty()) continue;
    auto depends_on = nlohmann::ordered_json::array();
    for (const api::DependencySpec& each : replicas.depends_on) {
      depends_on.push_back(
          {{"role", api::NameOf(*each.role)}, {"status", api::NameOf(*each.status)}});
    }
    order.push_back({{"role", api::NameOf(role)}, {"depends_on", std::move(depends_on)}});
  }
  return order;
}

absl::StatusOr<nlohmann::ordered_json> MakePlan(const PlanOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const JobFile file, LoadJobFile(options.job));
  if (!file.job.spec.training) {
    return absl::InvalidArgumentError(
        fmt::format("{}: spec.training: found none, expected what the bundled trainer is to train: "
                    "what an image of one's own does is not known",
                    SourceOf(options.job.file)));
  }
  const std::string work_dir =
      options.work_dir.empty() ? "runs/" + file.job.metadata.name : options.work_dir;
  PlanRequest request{.job = api::WithDefaults(file.job),
                      .work_dir = std::filesystem::absolute(work_dir).lexically_normal().string(),
                      .volumes = {},
                      .arguments = ArgumentsOf(options)};
  LOCKSTEP_ASSIGN_OR_RETURN(request.volumes, ParseVolumes(options.volumes));
  absl::StatusOr<nlohmann::ordered_json> plan = AskForPlan(request);
  if (!plan.ok()) return InFile(SourceOf(options.job.file), plan.status());
  (*plan)["start_order"] = StartOrderOf(file.job.spec);
  return plan;
}

// Why the text is not a shape; empty: it is one.
std::string ShapeFault(const std::string& text) {
  static const std::regex kShape("[1-9][0-9]{0,8}(,[1-9][0-9]{0,8},[1-9][0-9]{0,8})?");
  if (std::regex_match(text, kShape)) return "";
  return fmt::format("found \"{}\", expected one or three positive numbers, as in 3,224,224", text);
}

}  // namespace

CLI::App* AddPlanCommand(CLI::App& app, PlanOptions& options) {
  CLI::App* command =
      app.add_subcommand("plan", "Print what a TrainingJob would do and need, without training");
  AddJobFileOptions(*command, options.job);
  AddOutputOption(*command, options.output, {"text", "json"}, "text, or json: one object");
  command
      ->add_option("--work-dir", options.work_dir,
                   "The folder of a `run`, for data in its volumes [runs/<job>]")
      ->type_name(kFolderType);
  AddVolumeOption(*command, options.volumes);
  const CLI::Range positive(std::int64_t{1}, std::numeric_limits<std::int64_t>::max());
  command
      ->add_option("--samples", options.samples,
                   "Training samples, instead of opening the data set")
      ->check(positive)
      ->type_name("COUNT");
  command
      ->add_option("--classes", options.classes,
                   "Classes, or numbers of a label, instead of opening the data set")
      ->check(positive)
      ->type_name("COUNT");
  command
      ->add_option(
          "--sample-shape", options.sample_shape,
          "A sample's channels, height and width, or features, instead of opening the data set")
      ->check(CLI::Validator(ShapeFault, ""))
      ->type_name("C,H,W");
  return command;
}

ExitCode RunPlan(const PlanOptions& options) {
  const absl::StatusOr<nlohmann::ordered_json> plan = MakePlan(options);
  if (absl::IsUnavailable(plan.status()) || absl::IsInternal(plan.status())) {
    return Fail(kExitTrainerFailed, plan.status());
  }
  if (!plan.ok()) return Fail(kExitUsage, plan.status());
  if (options.output == "json") {
    fmt::print("{}\n", AsciiJson(*plan));
  } else {
    fmt::print("{}", PlanText(*plan));
  }
  const auto& refusal = plan->at("refusal");
  if (refusal.is_null()) return kExitDone;
  return Fail(kExitDoesNotFit,
              absl::ResourceExhaustedError(
                  fmt::format("{}: {}", SourceOf(options.job.file), refusal.get<std::string>())));
}

}  // namespace lockstep::cli
