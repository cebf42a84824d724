// File descriptors with an owner.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <utility>

#include "absl/status/statusor.h"

namespace lockstep {

// Owns a file descriptor (a file, socket, pipe, …); -1 if it has none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Opens /dev/null as each of the standard streams that is closed. Otherwise the next file that this
// program opens would get its number, and messages would be written into it. Call it first in main.
void OpenStandardStreams();

struct Pipe {
  Descriptor read, write;
};

// Returns a pipe whose ends are close-on-exec. On failure, this process or this machine has too
// many open files.
absl::StatusOr<Pipe> MakePipe();

// Returns a descriptor that is readable once the process has ended. On failure, there is no such
// process, or too many files are open.
absl::StatusOr<Descriptor> WatchProcess(pid_t process);

}  // namespace lockstep
