#include "base/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

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

// On failure errno says why, and the file is gone.
bool Written(const std::string& path, std::string_view text, mode_t mode) {
  Descriptor file = CreateAnew(path, mode);
  if (file.fd() < 0) return false;
  if (WriteTo(file.fd(), text) && (::close(file.Release()) == 0 || errno == EINTR)) return true;
  const int error = errno;
  ::unlink(path.c_str());
  errno = error;
  return false;
}

// On failure errno says why.
Descriptor OpenChecked(const std::string& path, int flags, mode_t mode) {
  flags |= O_NOFOLLOW | O_CLOEXEC;
  Descriptor file(::open(path.c_str(), flags | O_NONBLOCK, mode));
  struct stat info{};
  if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) return {};
  if (!S_ISREG(info.st_mode) || info.st_nlink > 1) {
    errno = S_ISREG(info.st_mode) ? ELOOP : ENXIO;
    return {};
  }
  // A program that inherits it expects calls that block.
  return ::fcntl(file.fd(), F_SETFL, flags) == 0 ? std::move(file) : Descriptor();
}

absl::Status CannotWrite(const std::string& path) {
  return absl::ErrnoToStatus(errno, fmt::format("cannot write {}", path));
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

Descriptor OpenOwn(const std::string& path, int flags, mode_t mode) {
  Descriptor file = OpenChecked(path, (flags & ~O_TRUNC) | O_CREAT, mode);
  if (file.fd() < 0) return {};
  if ((flags & O_TRUNC) != 0 && ::ftruncate(file.fd(), 0) != 0) return {};
  return file;
}

Descriptor OpenOwnIfThere(const std::string& path, int flags) {
  return OpenChecked(path, flags, 0);
}

Descriptor OpenOwnToRead(const std::string& path) {
  return OpenOwnIfThere(path, O_RDONLY);
}

std::string ReadOwn(const std::string& path, std::size_t most) {
  const Descriptor file = OpenOwnToRead(path);
  struct stat info{};
  if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) return "";
  const off_t size = std::min(info.st_size, static_cast<off_t>(most));
  std::string text(static_cast<std::size_t>(size), '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::pread(file.fd(), text.data() + filled, text.size() - filled,
                                info.st_size - size + static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;  // it has become shorter, or cannot be read
    filled += static_cast<std::size_t>(got);
  }
  text.resize(filled);
  return text;
}

absl::Status WriteAnew(const std::string& path, std::string_view text, mode_t mode) {
  return Written(path, text, mode) ? absl::OkStatus() : CannotWrite(path);
}

absl::Status ReplaceFile(const std::string& path, std::string_view text, mode_t mode) {
  const std::string draft = path + ".new";
  if (!Written(draft, text, mode)) return CannotWrite(path);
  if (::rename(draft.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const absl::Status failed = CannotWrite(path);
  ::unlink(draft.c_str());
  return failed;
}

}  // namespace lockstep
