#include "trainer/observe/phase_clock.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

namespace lockstep::train {

double PhaseTimes::Seconds(Phase phase) const {
  return std::chrono::duration<double>(by_phase[static_cast<std::size_t>(phase)]).count();
}

double PhaseTimes::Life() const {
  const Duration all = std::accumulate(by_phase.begin(), by_phase.end(), Duration::zero());
  return std::chrono::duration<double>(all).count();
}

PhaseClock::PhaseClock(const Clock& clock)
    : clock_(clock), began_(clock.SteadyNow()), since_(began_) {}

Phase PhaseClock::Switch(Phase to) {
  constexpr auto kOwn = std::memory_order_relaxed;  // only this thread writes
  const SteadyTime now = clock_.SteadyNow();
  const Phase from = phase_.load(kOwn);
  std::atomic<Duration>& ended = ended_[static_cast<std::size_t>(from)];
  const std::uint64_t version = version_.load(kOwn);
  version_.store(version + 1, kOwn);
  ended.store(ended.load(kOwn) + (now - since_.load(kOwn)), std::memory_order_release);
  since_.store(now, std::memory_order_release);
  phase_.store(to, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
  return from;
}

Duration PhaseClock::TrainingTime() const {
  Duration time{};
  for (const Phase phase : {Phase::kInput, Phase::kForward, Phase::kBackward, Phase::kCommunication,
                            Phase::kOptimizer}) {
    time += ended_[static_cast<std::size_t>(phase)].load(std::memory_order_relaxed);
  }
  return time;
}

PhaseClock::State PhaseClock::Load() const {
  for (;; std::this_thread::yield()) {
    const std::uint64_t version = version_.load(std::memory_order_acquire);
    State state;
    for (std::size_t i = 0; i < PhaseTimes::kPhases; ++i) {
      state.ended.by_phase[i] = ended_[i].load(std::memory_order_acquire);
    }
    state.since = since_.load(std::memory_order_acquire);
    state.phase = phase_.load(std::memory_order_acquire);
    if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) return state;
  }
}

PhaseTimes PhaseClock::Read() {
  // Read the clock before the state, so that a phase that ends in between counts up to its own end.
  const SteadyTime now = clock_.SteadyNow();
  const State state = Load();
  PhaseTimes times = state.ended;
  times[state.phase] += std::max(now - state.since, SteadyTime::duration::zero());
  // A switch that read the clock before `now` but is not visible yet leaves some nanoseconds in the
  // wrong phase. They are not taken back: Prometheus reads a decrease as a counter reset.
  for (std::size_t i = 0; i < PhaseTimes::kPhases; ++i) {
    read_.by_phase[i] = std::max(read_.by_phase[i], times.by_phase[i]);
  }
  return read_;
}

}  // namespace lockstep::train
