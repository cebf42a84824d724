// Another process of this host, watched for its death.
#pragma once

#include <sys/types.h>

#include <utility>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Holds the process itself (a pidfd), so a later process with the same id is never mistaken for it.
class PeerProcess {
 public:
  // NotFound: no such process; Unimplemented: a kernel before 5.3.
  static absl::StatusOr<PeerProcess> Open(pid_t pid);
  PeerProcess(PeerProcess&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  PeerProcess& operator=(PeerProcess&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~PeerProcess();

  // False from the moment the process is dead, reaped or not.
  bool Alive() const;

 private:
  explicit PeerProcess(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lockstep::train
