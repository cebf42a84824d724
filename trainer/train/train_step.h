// One synchronous training step of one replica.
#pragma once

#include <chrono>
#include <cstdint>
#include <variant>

#include "trainer/data/loader.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/loop_outcome.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// Sums over all ranks of one step.
struct StepTotals {
  double loss = 0, correct = 0, examples = 0;
  double stop_requests = 0;
  double gradient_norm = 0;  // of the mean gradient
  std::uint64_t hash = 0;
};

// Seconds of this replica, added up since it started.
struct PhaseSeconds {
  double input = 0, forward = 0, backward = 0, communication = 0, optimizer = 0;
  double checkpoint = 0, evaluation = 0, rendezvous = 0;
};

// Adds the seconds until its destruction to `total`.
class PhaseTimer {
 public:
  explicit PhaseTimer(double& total) : total_(total), start_(std::chrono::steady_clock::now()) {}
  ~PhaseTimer() {
    total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  double& total_;
  const std::chrono::steady_clock::time_point start_;
};

// Applies one step to the session's parameters and states. With an outcome nothing has been
// applied, and the step can be done again: kGenerationOver; kFailed: a sample cannot be read;
// kDiverged: the loss or a gradient is not finite, on all ranks alike.
std::variant<StepTotals, LoopOutcome> TrainStep(Session& session, Strategy& strategy,
                                                Loader& loader, std::int64_t step,
                                                bool stop_requested, PhaseSeconds& seconds);

}  // namespace lockstep::train
