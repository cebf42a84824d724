#include "operator/cli/fail.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "base/printable.h"

namespace lockstep::cli {

int Fail(int code, const absl::Status& status) {
  fmt::print(stderr, "{}\n", Printable(std::string(status.message())));
  return code;
}

int FailOnCluster(int code, const absl::Status& status) {
  fmt::print(stderr, "lockstep: {}\n", Printable(std::string(status.message())));
  return code;
}

int FailInternally(int code, const std::exception& error) {
  fmt::print(stderr, "lockstep: internal error: {}\n", Printable(error.what()));
  return code;
}

}  // namespace lockstep::cli
