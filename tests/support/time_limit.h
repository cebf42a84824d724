// Time limits for tests.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"

namespace lockstep::testing {

// Returns the time that this machine and a sanitized build need for what takes `duration` on the
// machine where times are chosen (CMake's LOCKSTEP_TIME_PERCENT, see tools/yardstick).
inline Duration Slowed(Duration duration) {
#if defined(__SANITIZE_ADDRESS__)
  duration *= 3;
#elif defined(__SANITIZE_THREAD__)
  duration *= 10;
#endif
  const char* percent = std::getenv("LOCKSTEP_TIME_PERCENT");
  return percent == nullptr ? duration : duration * std::max(std::atoi(percent), 100) / 100;
}

// Returns the limit for a time that the product promises. Sanitized builds, in which starting a
// process alone takes seconds, only check that it happens.
inline Duration TimeLimit(Duration promised) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  promised *= 50;
#endif
  return Slowed(promised);
}

}  // namespace lockstep::testing
