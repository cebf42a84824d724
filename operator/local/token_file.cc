#include "operator/local/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "api/base/hmac.h"

namespace lockstep::local {
namespace {

constexpr std::size_t kTokenBytes = 32;

}  // namespace

absl::StatusOr<api::JobToken> MakeTokenFile(const std::string& path) {
  std::string token = ToHex(RandomBytes(kTokenBytes));
  // Not opened but made, so that nobody has it open already.
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return absl::ErrnoToStatus(errno, fmt::format("{}: cannot remove", path));
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, fmt::format("{}: cannot create", path));
  const ssize_t written = ::write(fd, token.data(), token.size());
  const int error = errno;
  ::close(fd);
  if (written != static_cast<ssize_t>(token.size())) {
    return absl::ErrnoToStatus(written < 0 ? error : ENOSPC, fmt::format("{}: cannot write", path));
  }
  return api::JobToken(std::move(token));
}

}  // namespace lockstep::local
