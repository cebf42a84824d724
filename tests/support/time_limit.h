// Time limits for tests.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"

namespace lockstep::testing {

// Returns the time that this machine and a sanitized build need for what takes `duration` on the
// machine where times are chosen. ctest says how much longer that is, in percent (see
// cmake/TimeLimits.cmake); a program that is started by hand knows its sanitizer alone.
inline Duration Slowed(Duration duration) {
  const char* percent = std::getenv("LOCKSTEP_TIME_PERCENT");
  if (percent != nullptr) return duration * std::max(std::atoi(percent), 100) / 100;
#if defined(__SANITIZE_ADDRESS__)
  duration *= 3;
#elif defined(__SANITIZE_THREAD__)
  duration *= 10;
#endif
  return duration;
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
