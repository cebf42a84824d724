#include "operator/cli/fail.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "base/printable.h"

namespace lockstep::cli {
namespace {

// Does not throw, as fmt::print does, if nobody reads stderr: the exit code still tells of it.
void Tell(const std::string& line) {
  std::fputs((Printable(line) + '\n').c_str(), stderr);
}

}  // namespace

ExitCode Fail(const ExitCode& code, const absl::Status& status) {
  Tell(std::string(status.message()));
  return code;
}

ExitCode FailOnCluster(const ExitCode& code, const absl::Status& status) {
  Tell(fmt::format("lockstep: {}", std::string(status.message())));
  return code;
}

ExitCode FailInternally(const std::exception& error) {
  Tell(fmt::format("lockstep: internal error: {}", error.what()));
  return kExitInternalError;
}

}  // namespace lockstep::cli
