#include "base/pause.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace lockstep {
namespace {

constexpr auto kStopPoll = std::chrono::milliseconds(20);

}  // namespace

void Pause(const Clock& clock, Duration duration, const std::function<bool()>& stop_requested) {
  const SteadyTime end = clock.SteadyNow() + duration;
  for (SteadyTime now = clock.SteadyNow(); now < end && !stop_requested();
       now = clock.SteadyNow()) {
    std::this_thread::sleep_for(std::min<Duration>(end - now, kStopPoll));
  }
}

}  // namespace lockstep
