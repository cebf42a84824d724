#include "trainer/train/train_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "trainer/optim/learning_rate.h"

namespace lockstep::train {
namespace {

StepContext ContextOf(const Session& session, const Session::Part& part, std::int64_t step) {
  return {.training = true,
          .valid = part.valid,
          .step = static_cast<std::uint64_t>(step),
          .seed = static_cast<std::uint64_t>(session.training().seed),
          .first_position = static_cast<std::uint64_t>(part.first_position)};
}

// Running statistics become their mean over ranks, so that all ranks stay bitwise equal.
void OfferStates(Session& session, int world) {
  const std::span<float> states = session.model().states();
  const float share = 1.0f / static_cast<float>(world);
  float* offered = session.buffer_states();
  for (std::size_t i = 0; i < states.size(); ++i) offered[i] = states[i] * share;
}

void TakeStates(Session& session) {
  const std::span<float> states = session.model().states();
  std::copy_n(session.buffer_states(), states.size(), states.data());
}

StepTotals TotalsOf(const StepTail& tail) {
  return {.loss = static_cast<double>(tail.loss),
          .correct = static_cast<double>(tail.correct),
          .examples = static_cast<double>(tail.examples),
          .stop_requests = static_cast<double>(tail.stop_requests),
          .hash = HashOf(tail)};
}

// Loads a part of the batch and runs forward and loss, whose sums it adds to `tail`.
StepContext ForwardPart(Session& session, const Batch& batch, int index, StepTail& tail,
                        PhaseClock& phases) {
  const std::int64_t examples = session.plan().GlobalExamples(batch.step);
  StepContext context;
  {
    const PhaseTimer timer(phases, Phase::kInput);
    context = ContextOf(session, session.Load(batch, index), batch.step);
  }
  {
    const PhaseTimer timer(phases, Phase::kForward);
    session.model().Forward(context);
  }
  const PhaseTimer timer(phases, Phase::kBackward);
  const LossOp::Result loss = session.training_loss().Run(1.0f / static_cast<float>(examples));
  tail.loss += static_cast<float>(loss.loss);
  tail.correct += static_cast<float>(loss.correct);
  return context;
}

// Runs forward, loss and backward of each part of the batch. Hands the sum of the parts' gradients
// to the strategy as they become ready, during the last part's backward pass.
void ComputeGradients(Session& session, Strategy& strategy, const Batch& batch, bool stop_requested,
                      PhaseClock& phases) {
  Model& model = session.model();
  const auto size = static_cast<std::int64_t>(model.gradients().size());
  float* const gradients = model.gradients().data();
  float* const accumulated = session.accumulated().data();
  std::ranges::fill(session.accumulated(), 0.0f);
  StepTail tail{.examples = static_cast<float>(batch.valid),
                .stop_requests = stop_requested ? 1.0f : 0.0f};
  SetHash(tail, batch.hash_sum);
  for (int part = 0; part + 1 < session.parts(); ++part) {
    const StepContext context = ForwardPart(session, batch, part, tail, phases);
    const PhaseTimer timer(phases, Phase::kBackward);
    model.Backward(context, [](std::int64_t, std::int64_t) {});
    session.backend().Accumulate(gradients, accumulated, size);
  }
  const StepContext context = ForwardPart(session, batch, session.parts() - 1, tail, phases);
  const PhaseTimer timer(phases, Phase::kBackward);
  OfferStates(session, session.plan().world);
  session.tail() = tail;
  strategy.GradientsReady(size);
  model.Backward(context, [&](std::int64_t offset, std::int64_t floats) {
    if (session.parts() > 1) {
      session.backend().Accumulate(accumulated + offset, gradients + offset, floats);
    }
    strategy.GradientsReady(offset);
  });
}

void RestoreStates(Session& session) {
  std::copy(session.saved_states().begin(), session.saved_states().end(),
            session.model().states().begin());
}

// The loss reveals bad parameters before the update, the gradients those after it. All ranks hold
// the same sums, so all reach the same verdict.
absl::Status CheckFinite(const StepTotals& totals, std::int64_t step) {
  if (std::isfinite(totals.loss) && std::isfinite(totals.gradient_norm)) return absl::OkStatus();
  return absl::OutOfRangeError(
      fmt::format("step {}: found a loss of {} and a gradient norm of {}, expected finite numbers; "
                  "lower spec.training.optimizer.learningRate",
                  step + 1, totals.loss / totals.examples, totals.gradient_norm));
}

double GradientNorm(Session& session) {
  const std::span<const float> gradients = session.model().gradients();
  return std::sqrt(
      session.backend().SquaredNorm(gradients.data(), static_cast<std::int64_t>(gradients.size())));
}

// Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013,
// algorithm 1: a gradient whose norm is above the threshold is scaled down to it. All ranks hold
// the same norm to the bit.
void Update(Session& session, double gradient_norm, std::int64_t step) {
  const api::OptimizerSpec& optimizer = session.training().optimizer;
  const double rate = LearningRateAt(session.training().learning_rate_schedule,
                                     optimizer.learning_rate, step, session.total_steps());
  const double most = optimizer.global_clip_norm;
  const bool clips = most > 0 && gradient_norm > most;
  session.optimizer().Step(rate, step + 1, clips ? most / gradient_norm : 1);
}

}  // namespace

std::variant<StepTotals, LoopOutcome> TrainStep(Session& session, Strategy& strategy,
                                                Loader& loader, const StepOptions& options,
                                                PhaseClock& phases) {
  const std::int64_t step = options.step;
  const Batch* batch = nullptr;
  {
    const PhaseTimer timer(phases, Phase::kInput);
    const absl::StatusOr<const Batch*> next = loader.Next();
    if (!next.ok()) return FailedFor(next.status());
    batch = *next;
    LOCKSTEP_CHECK(batch->step == step, "the loader is at step {}, the replica at step {}",
                   batch->step, step);
  }
  const std::span<float> states = session.model().states();
  std::copy(states.begin(), states.end(), session.saved_states().begin());
  ComputeGradients(session, strategy, *batch, options.stop_requested, phases);
  absl::Status reduced;
  {
    const PhaseTimer timer(phases, Phase::kCommunication);
    reduced = strategy.FinishGradients();
  }
  if (!reduced.ok()) {
    RestoreStates(session);
    return EndOfStrategy(std::move(reduced));
  }
  const PhaseTimer timer(phases, Phase::kOptimizer);
  StepTotals totals = TotalsOf(session.tail());
  totals.gradient_norm = GradientNorm(session);
  if (absl::Status finite = CheckFinite(totals, step); !finite.ok()) {
    RestoreStates(session);
    if (!options.may_skip) return LoopOutcome{LoopEnd::kDiverged, std::move(finite)};
    totals.loss = totals.correct = 0;
    totals.skipped = true;
    return totals;
  }
  TakeStates(session);
  Update(session, totals.gradient_norm, step);
  return totals;
}

}  // namespace lockstep::train
