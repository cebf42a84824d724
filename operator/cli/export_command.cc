#include "operator/cli/export_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/launch.h"
#include "base/status.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/local/trainer_program.h"
#include "operator/cli/shared_options.h"
#include "operator/local/process_kubelet.h"

namespace lockstep::cli {
namespace {

// Ok if it has written the file. InvalidArgument: it has said on stderr what is wrong with its
// input. Others: it cannot be started, or has ended in another way.
absl::Status RunTrainerExport(const ExportOptions& options) {
  LaunchSpec spec{.argv = {kTrainer, "export", "--", options.checkpoint, options.file},
                  .env = TrainerEnvironment(local::ThisHost()),
                  .dies_with_thread = true};
  LOCKSTEP_ASSIGN_OR_RETURN(const pid_t trainer, LaunchTrainer(spec));
  const int status = WaitFor(trainer);
  if (status == 0) return absl::OkStatus();
  if (IsRefusal(status)) return absl::InvalidArgumentError("refused");
  return absl::InternalError(
      fmt::format("{} export: found {}, expected exit code 0", kTrainer, DescribeExit(status)));
}

}  // namespace

CLI::App* AddExportCommand(CLI::App& app, ExportOptions& options) {
  CLI::App* command = app.add_subcommand("export", "Write a checkpoint's model into one file");
  command
      ->add_option("CHECKPOINT", options.checkpoint,
                   "A checkpoint's folder, or a folder of checkpoints: the newest one")
      ->type_name(kFolderType)
      ->required();
  command->add_option("FILE", options.file, "Ends in .onnx or .safetensors: the format")
      ->type_name(kFileType)
      ->required();
  return command;
}

ExitCode RunExport(const ExportOptions& options) {
  const absl::Status written = RunTrainerExport(options);
  if (written.ok()) return kExitDone;
  if (absl::IsInvalidArgument(written)) return kExitUsage;
  return Fail(kExitTrainerFailed, written);
}

}  // namespace lockstep::cli
