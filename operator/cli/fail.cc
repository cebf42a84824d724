#include "operator/cli/fail.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "base/printable.h"

namespace lockstep::cli {

ExitCode Fail(const ExitCode& code, const absl::Status& status) {
  fmt::print(stderr, "{}\n", Printable(std::string(status.message())));
  return code;
}

ExitCode FailOnCluster(const ExitCode& code, const absl::Status& status) {
  fmt::print(stderr, "lockstep: {}\n", Printable(std::string(status.message())));
  return code;
}

ExitCode FailInternally(const std::exception& error) {
  fmt::print(stderr, "lockstep: internal error: {}\n", Printable(error.what()));
  return kExitInternalError;
}

}  // namespace lockstep::cli
