#include "trainer/core/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace lockstep::train {
namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

std::uint64_t OfMachine(const std::string& entry) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t kilobytes = 0;
  while (file >> word)
    if (word == entry && file >> kilobytes) return kilobytes * 1024;
  return kUnknown;
}

// Where a version of the control groups tells these numbers.
struct CgroupFiles {
  const char *limit, *used, *stat;
  const char *inactive, *active;  // pages of files in `stat`, with those of the groups below
};
constexpr CgroupFiles kVersion2 = {.limit = "/memory.max",
                                   .used = "/memory.current",
                                   .stat = "/memory.stat",
                                   .inactive = "inactive_file",
                                   .active = "active_file"};
constexpr CgroupFiles kVersion1 = {.limit = "/memory/memory.limit_in_bytes",
                                   .used = "/memory/memory.usage_in_bytes",
                                   .stat = "/memory/memory.stat",
                                   .inactive = "total_inactive_file",
                                   .active = "total_active_file"};

// Version 1 has no word for "no limit", but a number next to 2^63.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

// Returns the pages of files that the kernel would drop before it runs out of memory. They count as
// used, and a program that reads much data fills its whole limit with them.
std::uint64_t Reclaimable(const std::string& root, const CgroupFiles& files) {
  std::ifstream file(root + files.stat);
  std::string name;
  std::uint64_t bytes = 0, sum = 0;
  while (file >> name >> bytes)
    if (name == files.inactive || name == files.active) sum += bytes;
  return sum;
}

std::uint64_t Limit(const std::string& root, const CgroupFiles& files) {
  std::uint64_t limit = 0;
  std::ifstream file(root + files.limit);  // "max": no limit
  return file >> limit && limit < kNoLimit ? limit : kUnknown;
}

std::uint64_t Available(const std::string& root, const CgroupFiles& files) {
  const std::uint64_t limit = Limit(root, files);
  std::uint64_t used = 0;
  std::ifstream used_file(root + files.used);
  if (limit == kUnknown || !(used_file >> used)) return kUnknown;
  used -= std::min(used, Reclaimable(root, files));
  return limit > used ? limit - used : 0;
}

}  // namespace

// A machine may have the files of both versions, but only one of them has the memory.
std::uint64_t AvailableInCgroup(const std::string& root) {
  return std::min(Available(root, kVersion2), Available(root, kVersion1));
}

std::uint64_t AvailableMemory() {
  return std::min(OfMachine("MemAvailable:"), AvailableInCgroup("/sys/fs/cgroup"));
}

std::uint64_t LimitOfCgroup(const std::string& root) {
  return std::min(Limit(root, kVersion2), Limit(root, kVersion1));
}

std::uint64_t MemoryLimit() {
  return std::min(OfMachine("MemTotal:"), LimitOfCgroup("/sys/fs/cgroup"));
}

}  // namespace lockstep::train
