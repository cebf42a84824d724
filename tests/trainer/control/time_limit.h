// Promised times, as tests check them.
#pragma once

#include "api/base/clock.h"

namespace lockstep::testing {

// What the product promises; sanitized builds, in which the mere start of a process takes seconds,
// check only that it happens.
constexpr Duration TimeLimit(Duration promised) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return promised * 50;
#else
  return promised;
#endif
}

}  // namespace lockstep::testing
