// The lockstep-trainer that verbs ask: the one beside this program, or else on the PATH. Verbs
// start it as a process, so that this program links no code of the trainer.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "base/launch.h"
#include "operator/local/process_kubelet.h"

namespace lockstep::cli {

inline constexpr char kTrainer[] = "lockstep-trainer";

// Returns the host's environment with this program's folder first on the PATH.
Environment TrainerEnvironment(const local::HostFacts& host);

// Starts the program spec.argv[0], found on the PATH of spec.env, and sets spec.program.
// Unavailable: there is none, or it cannot be started; says why. Requires: spec.argv[0] is
// kTrainer.
absl::StatusOr<pid_t> LaunchTrainer(LaunchSpec& spec);

// True if the trainer has found a fault of its input or of an option, which it has named on stderr.
bool IsRefusal(int wait_status);

}  // namespace lockstep::cli
