#include "trainer/plan/process_memory.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace lockstep::train {

ProcessMemory ReadProcessMemory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kilobytes = 0;
  while (status >> word) {
    std::size_t* const field = word == "VmRSS:"     ? &memory.resident
                               : word == "RssFile:" ? &memory.files
                               : word == "VmData:"  ? &memory.writable
                                                    : nullptr;
    if (field != nullptr && status >> kilobytes) *field = kilobytes * 1024;
  }
  return memory;
}

ProcessMemory ReadTrimmedMemory() {
  ::malloc_trim(0);
  return ReadProcessMemory();
}

ProcessMemory GrowthSince(const ProcessMemory& before) {
  const ProcessMemory now = ReadProcessMemory();
  return {.resident = now.resident - std::min(before.resident, now.resident),
          .files = now.files - std::min(before.files, now.files),
          .writable = now.writable - std::min(before.writable, now.writable)};
}

}  // namespace lockstep::train
