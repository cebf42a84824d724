// One synchronous training step of one rank, in two halves: a device with a queue works on a step
// while the host prepares the next.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>

#include "absl/status/statusor.h"
#include "api/v1/activity.h"
#include "trainer/data/loader.h"
#include "trainer/observe/phase_clock.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/loop_outcome.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// What a rank adds to StepTotals::stop_requests: kStopRequest if its pod was asked to stop,
// kResizeRequest if the group is to have another number of workers. Fewer than 2^24 resize requests
// add up to less than one stop request.
inline constexpr float kStopRequest = 1, kResizeRequest = 0x1p-24f;

// Sums over all ranks of one step.
struct StepTotals {
  double loss = 0, correct = 0, examples = 0;
  double stop_requests = 0;
  double gradient_norm = 0;  // of the mean gradient, before it is clipped
  // For the next step; absent unless the session adapts it.
  std::optional<LossScale> loss_scale;
  std::uint64_t hash = 0;  // the sum of the samples' hashes, for the ledger
  // The loss or a gradient is not finite, so that nothing was updated; loss and correct are 0.
  bool skipped = false;
};

struct StepOptions {
  std::int64_t step = 0;               // counts from 0
  float stop_request = 0;              // of this rank
  std::int64_t may_skip_in_a_row = 0;  // the same on all ranks: see UpdateSettings
  // Called as each part of the step begins.
  std::function<void(api::StepPart)> entered = [](api::StepPart) {};
};

// Every kind of step begins with these two.
// Returns the next batch of the loader, which must be that of options.step. Errors: those of
// Loader::Next.
absl::StatusOr<const Batch*> NextBatch(Loader& loader, const StepOptions& options,
                                       PhaseClock& phases);
// Begins the session's step, with its settings and what this rank adds to its totals. `batch`: null
// if another rank counts its samples.
void BeginSessionStep(Session& session, const Batch* batch, const StepOptions& options);

// Queues one step on the session's device, with the update of the parameters and states, which is
// made only if the sums over ranks are there and finite. With a host device the step is done on
// return. Returns nullopt; or kFailed, with nothing queued, if a sample cannot be read.
// Requires: the model is not cut into stages; for that see stage_step.h.
std::optional<LoopOutcome> BeginStep(Session& session, Strategy& strategy, Loader& loader,
                                     const StepOptions& options, PhaseClock& phases);

// Blocks until the oldest begun step is done, and returns what became of it. If that is no
// StepTotals, the step was not applied, nor is any that was begun after it until
// Session::OpenGate; it can then be repeated. Outcomes: EndOfStrategy's; kDiverged, on all ranks
// alike, if the loss or a gradient is not finite and the step must not be skipped.
std::variant<StepTotals, LoopOutcome> EndStep(Session& session, Strategy& strategy,
                                              std::int64_t step, PhaseClock& phases);

}  // namespace lockstep::train
