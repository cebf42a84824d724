#include "base/clock.h"

namespace lockstep {

Time SystemClock::Now() const {
  return std::chrono::system_clock::now();
}
SteadyTime SystemClock::SteadyNow() const {
  return std::chrono::steady_clock::now();
}

}  // namespace lockstep
