#include "operator/local/machine_use.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/digest.h"

namespace lockstep::local {
namespace {

// Each resource has as many bytes of the file as runs may use it at a time. Each run locks one.
constexpr int kMostRuns = 64;

struct flock Lock(short type, off_t first, off_t bytes) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = bytes;
  return lock;
}

// The locks are those of the open file, not of the process, so that tests can be two runs.
bool IsLockedByOthers(int fd, off_t first, off_t bytes) {
  struct flock lock = Lock(F_WRLCK, first, bytes);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace

absl::StatusOr<MachineUse> MachineUse::Open(const std::string& folder, std::string machine) {
  const std::string path = folder + "/machine.lock";
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.fd() >= 0) return MachineUse(std::move(file), std::move(machine));
  return absl::FailedPreconditionError(fmt::format(
      "cannot open {} to share cores and GPUs with other runs: {}", path, std::strerror(errno)));
}

off_t MachineUse::FirstByteOf(const std::string& resource) const {
  return static_cast<off_t>(Digest(machine_ + "/" + resource) >> 8U) * kMostRuns;
}

int MachineUse::Others(const std::string& resource) const {
  const off_t first = FirstByteOf(resource);
  if (!IsLockedByOthers(file_.fd(), first, kMostRuns)) return 0;
  int others = 0;
  for (int byte = 0; byte < kMostRuns; ++byte) {
    if (IsLockedByOthers(file_.fd(), first + byte, 1)) ++others;
  }
  return others;
}

// Runs that have seen the same number of others want the same byte, the first that is free, and so
// only one of them gets it.
bool MachineUse::Take(const std::string& resource, int others) {
  if (taken_.contains(resource)) return true;
  if (Others(resource) != others) return false;
  const off_t first = FirstByteOf(resource);
  for (off_t byte = first; byte < first + kMostRuns; ++byte) {
    if (IsLockedByOthers(file_.fd(), byte, 1)) continue;
    const struct flock lock = Lock(F_WRLCK, byte, 1);
    if (fcntl(file_.fd(), F_OFD_SETLK, &lock) == 0) {
      taken_[resource] = byte;
      return true;
    }
    return errno != EAGAIN && errno != EACCES;  // else there are no locks here
  }
  return true;  // more runs than bytes
}

void MachineUse::Release(const std::string& resource) {
  const auto taken = taken_.find(resource);
  if (taken == taken_.end()) return;
  const struct flock lock = Lock(F_UNLCK, taken->second, 1);
  fcntl(file_.fd(), F_OFD_SETLK, &lock);
  taken_.erase(taken);
}

}  // namespace lockstep::local
