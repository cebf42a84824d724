#include "trainer/plan/process_memory.h"

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
    std::size_t* const field = word == "VmRSS:"    ? &memory.resident
                               : word == "VmData:" ? &memory.writable
                                                   : nullptr;
    if (field != nullptr && status >> kilobytes) *field = kilobytes * 1024;
  }
  return memory;
}

ProcessMemory GrowthSince(const ProcessMemory& before) {
  const ProcessMemory now = ReadProcessMemory();
  return {.resident = now.resident - std::min(before.resident, now.resident),
          .writable = now.writable - std::min(before.writable, now.writable)};
}

}  // namespace lockstep::train
