// Time as a collaborator, so that rules about time are tested without waiting.
#pragma once

#include <chrono>

namespace lockstep {

using Duration = std::chrono::nanoseconds;
// Wall-clock instant: what API objects carry.
using Time = std::chrono::system_clock::time_point;
// Monotonic instant: what timers and deadlines use.
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
