#include "operator/controller/state/times.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace lockstep::controller {

Time SecondsAfter(Time time, std::int64_t seconds) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return time + std::chrono::seconds(std::min(seconds, kMost));
}

Time WholeSeconds(Time time) {
  return std::chrono::floor<std::chrono::seconds>(time);
}

}  // namespace lockstep::controller
