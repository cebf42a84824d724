#include "base/read_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/descriptor.h"

namespace lockstep {

absl::StatusOr<std::string> ReadFile(const std::string& path, std::string_view what) {
  const auto failed = [&](int error) {
    return absl::ErrnoToStatus(error, fmt::format("{}: {} cannot be read", path, what));
  };
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return failed(errno);
  std::string text;
  std::array<char, 4096> bytes;
  while (true) {
    const ssize_t got = read(file.fd(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(errno);
    if (got == 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace lockstep
