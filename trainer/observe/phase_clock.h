// Measures what a replica spends its time on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace lockstep::train {

// docs/metrics.md defines the phases; kForward and kBackward are `compute` there.
enum class Phase : std::size_t {
  kIdle,
  kInput,
  kForward,
  kBackward,
  kCommunication,
  kOptimizer,
  kCheckpoint,
  kEvaluation,
  kRendezvous,
};

struct PhaseTimes {
  static constexpr std::size_t kPhases = 9;
  std::array<Duration, kPhases> by_phase{};

  Duration& operator[](Phase phase) { return by_phase[static_cast<std::size_t>(phase)]; }
  double Seconds(Phase phase) const;
  double Life() const;  // seconds of all phases together
};

// The replica is always in exactly one phase, so the phases' times add up to the time since
// construction. One thread switches, which costs little more than reading the clock. One other
// thread at a time may read.
class PhaseClock {
 public:
  // Starts in kIdle.
  explicit PhaseClock(const Clock& clock);

  // Starts phase `to` and returns the phase that ends.
  Phase Switch(Phase to);
  // The time of completed phases that belong to steps. Call it on the thread that switches.
  Duration TrainingTime() const;
  SteadyTime began() const { return began_; }
  // Returns the times up to now, including the current phase. No time ever decreases.
  PhaseTimes Read();

 private:
  struct State {
    PhaseTimes ended;
    Phase phase = Phase::kIdle;
    SteadyTime since;
  };
  State Load() const;

  const Clock& clock_;
  const SteadyTime began_;
  // A sequence lock: the version is odd while the rest is written. Parts are stored with release
  // and loaded with acquire, so a reader that sees part of a newer state sees its version, too.
  std::atomic<std::uint64_t> version_{0};
  std::array<std::atomic<Duration>, PhaseTimes::kPhases> ended_{};
  std::atomic<Phase> phase_{Phase::kIdle};
  std::atomic<SteadyTime> since_;
  PhaseTimes read_;  // used by the reader only
};

// Switches to `phase` until its destruction, then back to the phase before.
class PhaseTimer {
 public:
  PhaseTimer(PhaseClock& clock, Phase phase) : clock_(clock), before_(clock.Switch(phase)) {}
  ~PhaseTimer() { clock_.Switch(before_); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  PhaseClock& clock_;
  const Phase before_;
};

}  // namespace lockstep::train
