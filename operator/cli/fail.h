// Reports why a verb failed. Each function prints to stderr, with control characters replaced since
// others may have written parts of the message. Those that take a status return `code`.
#pragma once

#include <exception>

#include "absl/status/status.h"
#include "operator/cli/exit_codes.h"

namespace lockstep::cli {

// Prints the message as it is. Requires: the message names the file or the option it is about.
ExitCode Fail(const ExitCode& code, const absl::Status& status);

// Prints "lockstep: " and the message: for errors of a cluster.
ExitCode FailOnCluster(const ExitCode& code, const absl::Status& status);

// Prints an exception that nobody expected: one of this program's faults. Returns
// kExitInternalError.
ExitCode FailInternally(const std::exception& error);

// Call it last, with the exit code so far. If stdout could not be written, for another reason than
// that its reader has ended, says so, and returns kExitInternalError's code instead of 0: whoever
// reads the file that stdout is would take a part for the whole. `is_cut`: the verb has ended early
// since it could not write; then says that, too, if the reader has ended.
int CodeWithOutput(int code, bool is_cut);

}  // namespace lockstep::cli
