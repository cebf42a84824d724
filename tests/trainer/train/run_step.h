// One step from its begin to its end, for tests that look at single steps.
#pragma once

#include <utility>
#include <variant>

#include "trainer/train/train_step.h"

namespace lockstep::train {

inline std::variant<StepTotals, LoopOutcome> RunStep(Session& session, Strategy& strategy,
                                                     Loader& loader, const StepOptions& options,
                                                     PhaseClock& phases) {
  if (auto ended = BeginStep(session, strategy, loader, options, phases)) return *std::move(ended);
  return EndStep(session, strategy, options.step, phases);
}

}  // namespace lockstep::train
