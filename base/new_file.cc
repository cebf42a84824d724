#include "base/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace lockstep {
namespace {

// Another process that creates the same file fails a try; more than a few in a row are no accident.
constexpr int kTries = 10;

// On failure errno says why.
bool WriteTo(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Descriptor CreateAnew(const std::string& path, mode_t mode) {
  for (int tries = 1;; ++tries) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != EINTR) return {};
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    const bool may_try_again = fd < 0 && (errno == EEXIST || errno == EINTR);
    if (!may_try_again || tries == kTries) return Descriptor(fd);
  }
}

absl::Status ReplaceFile(const std::string& path, std::string_view text, mode_t mode) {
  const std::string draft = path + ".new";
  Descriptor file = CreateAnew(draft, mode);
  const bool is_new = file.fd() >= 0;
  const bool is_replaced = is_new && WriteTo(file.fd(), text) &&
                           (::close(file.Release()) == 0 || errno == EINTR) &&
                           ::rename(draft.c_str(), path.c_str()) == 0;
  if (is_replaced) return absl::OkStatus();
  const int error = errno;
  if (is_new) ::unlink(draft.c_str());
  return absl::ErrnoToStatus(error, fmt::format("cannot write {}", path));
}

}  // namespace lockstep
