// An injectable clock, so that code that depends on time is tested without waiting.
#pragma once

#include <chrono>

namespace lockstep {

using Duration = std::chrono::nanoseconds;
// A wall-clock instant, as in API objects.
using Time = std::chrono::system_clock::time_point;
// A monotonic instant, for timers and deadlines.
using SteadyTime = std::chrono::steady_clock::time_point;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
  virtual SteadyTime SteadyNow() const = 0;
};

class SystemClock final : public Clock {
 public:
  Time Now() const override;
  SteadyTime SteadyNow() const override;
};

}  // namespace lockstep
