// Detects the death of another process on this host.
#pragma once

#include <sys/types.h>

#include <utility>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Holds a pidfd, so a later process with the same pid is never mistaken for this one.
class PeerProcess {
 public:
  // NotFound: no such process. Unimplemented: pidfd_open fails, as in kernels before 5.3.
  static absl::StatusOr<PeerProcess> Open(pid_t pid);
  PeerProcess(PeerProcess&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  PeerProcess& operator=(PeerProcess&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~PeerProcess();

  // Returns false once the process is dead, reaped or not.
  bool Alive() const;

 private:
  explicit PeerProcess(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lockstep::train
