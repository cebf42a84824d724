// One synchronous training step of one rank.
#pragma once

#include <cstdint>
#include <variant>

#include "trainer/data/loader.h"
#include "trainer/observe/phase_clock.h"
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

// Applies one step to the session's parameters and states. On failure nothing is applied and the
// step can be repeated. Outcomes: EndOfStrategy's; kFailed if a sample cannot be read; kDiverged,
// on all ranks alike, if the loss or a gradient is not finite.
std::variant<StepTotals, LoopOutcome> TrainStep(Session& session, Strategy& strategy,
                                                Loader& loader, std::int64_t step,
                                                bool stop_requested, PhaseClock& phases);

}  // namespace lockstep::train
