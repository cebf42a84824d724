// How much memory processes have had.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace lockstep::testing {

// Returns the most memory that the process's program has ever held, in bytes; 0 if that is not
// known. Unlike getrusage, does not count what the process held before it executed the program.
inline std::int64_t MostMemoryOf(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

}  // namespace lockstep::testing
