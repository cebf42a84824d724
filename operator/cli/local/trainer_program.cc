#include "operator/cli/local/trainer_program.h"

#include <fmt/format.h>

#include "api/v1/names.h"

namespace lockstep::cli {

Environment TrainerEnvironment(const local::HostFacts& host) {
  Environment env = host.env;
  std::string& path = env["PATH"];
  path = host.program_dir + ":" + (path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path);
  return env;
}

absl::StatusOr<pid_t> LaunchTrainer(LaunchSpec& spec) {
  const absl::StatusOr<std::string> program = FindProgram(spec.argv.front(), spec.env);
  if (!program.ok()) {
    return absl::UnavailableError(fmt::format(
        "{}: found none beside this program or on the PATH, expected the program that does this",
        kTrainer));
  }
  spec.program = *program;
  absl::StatusOr<pid_t> trainer = Launch(spec);
  if (trainer.ok()) return trainer;
  return absl::UnavailableError(
      fmt::format("{}: cannot be started: {}", *program, std::string(trainer.status().message())));
}

bool IsRefusal(int wait_status) {
  return api::IsInputFault(ExitCodeOf(wait_status));
}

}  // namespace lockstep::cli
