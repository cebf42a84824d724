// The `lockstep` program.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>

#include "api/v1/names.h"
#include "operator/cli/render_command.h"
#include "operator/cli/run_command.h"

namespace lockstep::cli {
namespace {

constexpr int kExitInternal = 1;

void AddFileOptions(CLI::App& command, std::string& file, std::vector<std::string>& sets) {
  command.add_option("FILE", file, "YAML with one TrainingJob; - reads standard input")->required();
  command
      .add_option("--set", sets,
                  "Change a field before the job is read: spec.training.epochs=3; list entries as "
                  "containers[0]; may be repeated")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false)
      ->take_all();
}

void AddRun(CLI::App& app, RunCommandOptions& options) {
  CLI::App* run = app.add_subcommand("run", "Run a TrainingJob on this machine, without a cluster");
  AddFileOptions(*run, options.file, options.sets);
  run->add_option("--work-dir", options.work_dir,
                  "Folder for volumes, checkpoints and logs [runs/<job>]; a job that is run again "
                  "in it goes on from its checkpoint");
  run->add_option_function<std::string>(
         "--output", [&options](const std::string& format) { options.json = format == "json"; },
         "text, or json: one object on stdout at the end")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("text|json");
  run->add_option("--volume", options.volumes, "The folder of a volume or claim; may be repeated")
      ->type_name("NAME=PATH")
      ->allow_extra_args(false)
      ->take_all();
  run->add_option("--timeout", options.timeout_seconds, "Stop the job after so many seconds")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  run->footer(
      "Exit code: 0 the job succeeded; the failing replica's own; 2 the job cannot be run as\n"
      "written; 124 out of time; 130 interrupted (Ctrl-C lets pods save, a second one kills).");
}

int Main(int argc, char** argv) {
  CLI::App app("Distributed training jobs: the same YAML on a cluster and on this machine.",
               "lockstep");
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
  app.require_subcommand(1);
  RunCommandOptions run;
  AddRun(app, run);
  std::string file;
  std::vector<std::string> sets;
  AddFileOptions(*app.add_subcommand("render", "Print every object the operator would create"),
                 file, sets);
  AddFileOptions(*app.add_subcommand("validate", "Say what is wrong with a TrainingJob, all of it"),
                 file, sets);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? api::kExitDone : api::kExitUsage;
  }
  if (app.got_subcommand("run")) return RunJob(run);
  if (app.got_subcommand("render")) return RenderJob(file, sets);
  return ValidateJob(file, sets);
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  try {
    return lockstep::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep: internal error: {}\n", error.what());
    return lockstep::cli::kExitInternal;
  }
}
