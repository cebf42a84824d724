#include "trainer/comm/shm/peer_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lockstep::train {

absl::StatusOr<PeerProcess> PeerProcess::Open(pid_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0);  // close-on-exec by definition
  if (fd >= 0) return PeerProcess(static_cast<int>(fd));
  const int error = errno;
  const auto message = fmt::format("process {}: pidfd_open: {}", pid, std::strerror(error));
  if (error == ESRCH) return absl::NotFoundError(message);
  return absl::UnimplementedError(message);
}

PeerProcess::~PeerProcess() {
  if (fd_ >= 0) close(fd_);
}

bool PeerProcess::Alive() const {
  pollfd poll_fd{fd_, POLLIN, 0};
  return poll(&poll_fd, 1, 0) == 0;
}

}  // namespace lockstep::train
