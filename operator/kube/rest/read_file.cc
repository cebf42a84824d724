#include "operator/kube/rest/read_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace lockstep::kube {

absl::StatusOr<std::string> ReadFile(const std::string& path, const char* what) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.is_open() && !file.bad()) return text;
  const int error = errno;
  const std::string message =
      fmt::format("{}: {} cannot be read: {}", path, what, std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  return absl::PermissionDeniedError(message);
}

}  // namespace lockstep::kube
