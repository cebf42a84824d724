#include "operator/cli/export_command.h"

#include <CLI/CLI.hpp>

#include "base/launch.h"
#include "base/status.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/local/process_kubelet.h"

namespace lockstep::cli {
namespace {

// Returns the trainer's exit code.
absl::StatusOr<int> RunTrainerExport(const ExportOptions& options) {
  const local::HostFacts host = local::ThisHost();
  LaunchSpec spec{.argv = {"lockstep-trainer", "export", "--", options.checkpoint, options.file},
                  .env = host.env,
                  .dies_with_thread = true};
  std::string& path = spec.env["PATH"];
  path = host.program_dir + ":" + (path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path);
  LOCKSTEP_ASSIGN_OR_RETURN(spec.program, FindProgram(spec.argv.front(), spec.env));
  LOCKSTEP_ASSIGN_OR_RETURN(const pid_t trainer, Launch(spec));
  return ExitCodeOf(WaitFor(trainer));
}

}  // namespace

CLI::App* AddExportCommand(CLI::App& app, ExportOptions& options) {
  CLI::App* command = app.add_subcommand("export", "Write a checkpoint's model into one file");
  command
      ->add_option("CHECKPOINT", options.checkpoint,
                   "A checkpoint's folder, or a folder of checkpoints: the newest one")
      ->required();
  command->add_option("FILE", options.file, "Ends in .onnx or .safetensors: the format")
      ->required();
  return command;
}

int RunExport(const ExportOptions& options) {
  const absl::StatusOr<int> code = RunTrainerExport(options);
  if (!code.ok()) return Fail(kExitUsage, code.status());
  return *code == 0 ? kExitDone : kExitUsage;
}

}  // namespace lockstep::cli
