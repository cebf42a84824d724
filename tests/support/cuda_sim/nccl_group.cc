#include "tests/support/cuda_sim/nccl_group.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

namespace cuda_sim {

GroupId MakeGroup() {
  const int fd = ::memfd_create("cuda_sim nccl", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, sizeof(SharedGroup)) != 0) return {.nonce = 0, .pid = 0, .fd = -1};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return {.nonce = static_cast<std::uint64_t>(now), .pid = ::getpid(), .fd = fd};
}

SharedGroup* MapGroup(const GroupId& id) {
  const std::string path = "/proc/" + std::to_string(id.pid) + "/fd/" + std::to_string(id.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* memory = ::mmap(nullptr, sizeof(SharedGroup), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<SharedGroup*>(memory);
}

void UnmapGroup(SharedGroup* group) {
  ::munmap(group, sizeof(SharedGroup));
}

bool AwaitPeers(const std::function<bool()>& is_true, const std::atomic<bool>& gives_up) {
  for (int looks = 0; !is_true(); ++looks) {
    if (gives_up) return false;
    if (looks < 100) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

}  // namespace cuda_sim
