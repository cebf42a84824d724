// The memory of this process, as the kernel counts it.
#pragma once

#include <cstddef>

namespace lockstep::train {

struct ProcessMemory {
  std::size_t resident = 0;  // VmRSS: pages that are in memory
  std::size_t files = 0;  // RssFile: those of them that are mapped files, the program's above all
  std::size_t writable = 0;  // VmData: private writable memory, used yet or not
};

// Reads /proc/self/status. Zeros if that cannot be read.
ProcessMemory ReadProcessMemory();

// The same once free memory has gone back to the kernel: memory that is allocated from then on is
// growth.
ProcessMemory ReadTrimmedMemory();

// What has been added since `before`; zero where it has become less.
ProcessMemory GrowthSince(const ProcessMemory& before);

}  // namespace lockstep::train
