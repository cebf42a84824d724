// The `lockstep` program.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>

#include "api/v1/names.h"
#include "operator/cli/cluster_commands.h"
#include "operator/cli/convert_command.h"
#include "operator/cli/render_command.h"
#include "operator/cli/run_command.h"

namespace lockstep::cli {
namespace {

constexpr int kExitInternal = 1;
constexpr int kMaxCount = 1'000'000'000;  // of a flag that takes a count

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
      ->check(CLI::Range(0.001, 1e9))
      ->type_name("SECONDS");
  run->footer(
      "Exit code: 0 the job succeeded; the failing replica's own; 2 the job cannot be run as\n"
      "written; 124 out of time; 130 interrupted (Ctrl-C lets pods save, a second one kills).");
}

void AddClusterOptions(CLI::App& command, ClusterOptions& cluster) {
  command.add_option("--kubeconfig", cluster.kubeconfig, "[$KUBECONFIG, else ~/.kube/config]");
  command.add_option("--context", cluster.context, "Of the kubeconfig [the current one]");
  command.add_option("-n,--namespace", cluster.namespace_name, "[the context's]");
}

void AddStatus(CLI::App& app, StatusCommandOptions& options) {
  CLI::App* status = app.add_subcommand("status", "Show TrainingJobs of a cluster as they go");
  status->add_option("JOB", options.job, "One job, with more about it");
  AddClusterOptions(*status, options.cluster);
  status->add_flag("-A,--all-namespaces", options.all_namespaces);
  status->add_flag_function(
      "-w,--watch,!--no-watch", [&options](std::int64_t count) { options.watch = count > 0; },
      "Go on until all jobs have ended [on a terminal]");
  status->footer(
      "Exit code: 0; 1 the cluster refused, or has no such job; 2 wrong usage; 3 a job that was\n"
      "watched to its end failed.");
}

void AddLogs(CLI::App& app, LogsCommandOptions& options) {
  CLI::App* logs = app.add_subcommand("logs", "Print the log of a TrainingJob's replica");
  logs->add_option("JOB", options.job)->required();
  logs->add_option("--role", options.role, "chief, worker, ps or evaluator [the leading one's]");
  logs->add_option("--index", options.index, "[0]")->check(CLI::Range(0, kMaxCount));
  logs->add_option("-c,--container", options.container, "[the one whose exit counts]");
  logs->add_option("--tail", options.tail, "Only so many last lines")
      ->check(CLI::Range(0, kMaxCount));
  logs->add_flag("-f,--follow", options.follow, "Go on until the container ends");
  logs->add_flag("-p,--previous", options.previous, "Of the container before its last restart");
  AddClusterOptions(*logs, options.cluster);
  logs->footer("Exit code: 0; 1 the cluster refused, or has no such log; 2 wrong usage.");
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
  StatusCommandOptions status;
  AddStatus(app, status);
  LogsCommandOptions logs;
  AddLogs(app, logs);
  CLI::App* convert =
      app.add_subcommand("convert", "Print a TFJob or PyTorchJob of Kubeflow as a TrainingJob");
  convert->add_option("FILE", file, "YAML; - reads standard input; other objects stay as they are")
      ->required();
  convert->footer(
      "Each field without an equal is told of on stderr. Exit code: 0 converted; 2 one cannot be.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? api::kExitDone : api::kExitUsage;
  }
  if (app.got_subcommand("run")) return RunJob(run);
  if (app.got_subcommand("status")) return RunStatus(status);
  if (app.got_subcommand("logs")) return RunLogs(logs);
  if (app.got_subcommand("convert")) return ConvertJobs(file);
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
