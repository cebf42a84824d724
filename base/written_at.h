// When a file was written.
#pragma once

#include <sys/stat.h>

#include "base/clock.h"

namespace lockstep {

inline Time WrittenAt(const struct stat& status) {
  return std::chrono::system_clock::from_time_t(status.st_mtim.tv_sec) +
         std::chrono::duration_cast<Time::duration>(
             std::chrono::nanoseconds(status.st_mtim.tv_nsec));
}

}  // namespace lockstep
