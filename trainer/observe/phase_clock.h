// What a replica spends its time on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace lockstep::train {

// docs/metrics.md says what belongs to which; kForward and kBackward are `compute` there.
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
  double Life() const;  // seconds, of all phases
};

// At any moment the replica is in exactly one phase, so the times of the phases add up to the time
// since construction. One thread switches, which costs it little more than a look at the clock; one
// thread reads at a time.
class PhaseClock {
 public:
  // In kIdle from now on.
  explicit PhaseClock(const Clock& clock);

  // Returns the phase that ends.
  Phase Switch(Phase to);
  // What has ended of the phases that steps are made of. For the thread that switches.
  Duration TrainingTime() const;
  SteadyTime began() const { return began_; }
  // Up to now: the phase under way counts, however long it lasts. No time ever goes back.
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
  // A sequence lock: the version is odd while the rest is written. Whoever reads a part of a newer
  // state (acquire) also sees that the version has moved on (each part is stored with release).
  std::atomic<std::uint64_t> version_{0};
  std::array<std::atomic<Duration>, PhaseTimes::kPhases> ended_{};
  std::atomic<Phase> phase_{Phase::kIdle};
  std::atomic<SteadyTime> since_;
  PhaseTimes read_;  // the reader's
};

// Spends the time until its destruction in `phase`, then goes back to the phase before.
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
