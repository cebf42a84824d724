#include "base/descriptor.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <cerrno>

namespace lockstep {

void OpenStandardStreams() {
  int fd = -1;
  do {
    fd = ::open("/dev/null", O_RDWR);  // takes the lowest free number
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "no new pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

absl::StatusOr<Descriptor> WatchProcess(pid_t process) {
  Descriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));  // close-on-exec
  if (watch.fd() < 0) return absl::ErrnoToStatus(errno, "cannot watch the process");
  return watch;
}

}  // namespace lockstep
