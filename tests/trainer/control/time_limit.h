// Promised times, as tests check them.
#pragma once

#include <cstdlib>

#include "api/base/clock.h"

namespace lockstep::testing {

// What the product promises, times what this machine is slower than the one where promises are
// measured (CMake's LOCKSTEP_TIME_PERCENT, see tools/yardstick). Sanitized builds, in which the
// mere start of a process takes seconds, check only that it happens.
inline Duration TimeLimit(Duration promised) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  promised *= 50;
#endif
  const char* percent = std::getenv("LOCKSTEP_TIME_PERCENT");
  return percent == nullptr ? promised : promised * std::atoi(percent) / 100;
}

}  // namespace lockstep::testing
