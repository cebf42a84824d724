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

// Returns the pages of files that the kernel would drop before it runs out of memory. They count as
// used, and a program that reads much data fills its whole limit with them.
std::uint64_t Reclaimable(const std::string& cgroup) {
  std::ifstream file(cgroup + "/memory.stat");
  std::string name;
  std::uint64_t bytes = 0, sum = 0;
  while (file >> name >> bytes)
    if (name == "inactive_file" || name == "active_file") sum += bytes;
  return sum;
}

}  // namespace

std::uint64_t AvailableInCgroup(const std::string& root) {
  std::uint64_t limit = 0, used = 0;
  std::ifstream limit_file(root + "/memory.max");  // "max": no limit
  std::ifstream used_file(root + "/memory.current");
  if (!(limit_file >> limit) || !(used_file >> used)) return kUnknown;
  used -= std::min(used, Reclaimable(root));
  return limit > used ? limit - used : 0;
}

std::uint64_t AvailableMemory() {
  return std::min(OfMachine(), AvailableInCgroup("/sys/fs/cgroup"));
}

}  // namespace lockstep::train
