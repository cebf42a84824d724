#include "base/descriptor.h"

#include <fcntl.h>

#include <cerrno>

namespace lockstep {

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "no new pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace lockstep
