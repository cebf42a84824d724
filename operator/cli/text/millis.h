// Times as a browser's scripts count them.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace lockstep::cli {

// Returns the milliseconds since 1970.
inline std::int64_t Millis(Time time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

}  // namespace lockstep::cli
