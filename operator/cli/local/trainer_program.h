// The lockstep-trainer that verbs ask: the one beside this program, or else on the PATH. So this
// program needs nothing of the trainer.
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

// Starts the program argv[0], which is kTrainer, found by the spec's environment. Sets
// spec.program. Unavailable: there is none, or it cannot be started; says why.
absl::StatusOr<pid_t> LaunchTrainer(LaunchSpec& spec);

// True if the trainer has found a fault of its input or of an option, which it has named on stderr.
bool IsRefusal(int wait_status);

}  // namespace lockstep::cli
