#include "trainer/comm/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace lockstep::train {
namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

std::uint64_t OfMachine() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t kilobytes = 0;
  while (file >> word)
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  return kUnknown;
}

// Errs on the low side: counts page cache as used although the kernel could reclaim it.
std::uint64_t OfContainer() {
  std::uint64_t limit = 0, used = 0;
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");  // "max": no limit
  std::ifstream used_file("/sys/fs/cgroup/memory.current");
  if (!(limit_file >> limit) || !(used_file >> used)) return kUnknown;
  return limit > used ? limit - used : 0;
}

}  // namespace

std::uint64_t AvailableMemory() {
  return std::min(OfMachine(), OfContainer());
}

}  // namespace lockstep::train
