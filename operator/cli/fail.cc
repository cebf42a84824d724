#include "operator/cli/fail.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "api/v1/names.h"
#include "base/printable.h"
#include "operator/controller/state/kinds.h"
#include "operator/kube/server_errors.h"

namespace lockstep::cli {
namespace {

// Does not throw, as fmt::print does, if nobody reads stderr: the exit code still tells of it.
void Tell(const std::string& line) {
  std::fputs((Printable(line) + '\n').c_str(), stderr);
}

bool HasReaderOfStdout() {
  pollfd out{STDOUT_FILENO, 0, 0};  // asks for errors alone
  return ::poll(&out, 1, 0) == 0;
}

}  // namespace

ExitCode Fail(const ExitCode& code, const absl::Status& status) {
  Tell(std::string(status.message()));
  return code;
}

ExitCode FailOnCluster(const ExitCode& code, const absl::Status& status) {
  std::string why(status.message());
  if (kube::IsOfUnknownKind(status, controller::kTrainingJobKind)) {
    why += fmt::format(
        ": found a cluster that knows no {} TrainingJob, expected one where Lockstep "
        "is installed",
        api::kApiVersion);
  }
  Tell(fmt::format("lockstep: {}", why));
  return code;
}

ExitCode FailInternally(const std::exception& error) {
  Tell(fmt::format("lockstep: internal error: {}", error.what()));
  return kExitInternalError;
}

int CodeWithOutput(int code, bool is_cut) {
  const int error = std::fflush(stdout) == 0 ? 0 : errno;
  if (error == 0 && std::ferror(stdout) == 0) return code;
  if (!HasReaderOfStdout()) {
    if (is_cut) Tell("lockstep: nobody reads the output any more");
    return code;
  }
  // An earlier write has failed, and stdio kept only that it did.
  const char* const why = error == 0 ? "a part of it is lost" : std::strerror(error);
  Tell(fmt::format("lockstep: cannot write the output: {}", why));
  return code == kExitDone.code ? kExitInternalError.code : code;
}

}  // namespace lockstep::cli
