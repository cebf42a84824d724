// A clock that only a test moves. Thread-safe.
#pragma once

#include <atomic>

#include "base/clock.h"

namespace lockstep::testing {

class FakeClock final : public Clock {
 public:
  Time Now() const override {
    return Time(std::chrono::seconds(1'700'000'000)) + elapsed_.load() + step_.load();
  }
  SteadyTime SteadyNow() const override { return SteadyTime(elapsed_.load()); }
  void Advance(Duration duration) { elapsed_ = elapsed_.load() + duration; }
  // Sets the wall clock, as NTP does with that of a machine that has just booted.
  void Step(Duration duration) { step_ = step_.load() + duration; }

 private:
  std::atomic<Duration> elapsed_{std::chrono::hours(1)};
  std::atomic<Duration> step_{Duration::zero()};
};

}  // namespace lockstep::testing
