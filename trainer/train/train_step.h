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
  double gradient_norm = 0;  // of the mean gradient, before it is clipped
  std::uint64_t hash = 0;
  // The loss or a gradient is not finite, so that nothing was updated; loss and correct are 0.
  bool skipped = false;
};

struct StepOptions {
  std::int64_t step = 0;  // counts from 0
  bool stop_requested = false;
  bool may_skip = false;  // the same on all ranks
};

// Applies one step to the session's parameters and states. On failure nothing is applied and the
// step can be repeated. Outcomes: EndOfStrategy's; kFailed if a sample cannot be read; kDiverged,
// on all ranks alike, if the loss or a gradient is not finite and the step must not be skipped.
std::variant<StepTotals, LoopOutcome> TrainStep(Session& session, Strategy& strategy,
                                                Loader& loader, const StepOptions& options,
                                                PhaseClock& phases);

}  // namespace lockstep::train
