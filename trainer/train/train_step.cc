#include "trainer/train/train_step.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "trainer/optim/learning_rate.h"

namespace lockstep::train {
namespace {

UpdateSettings SettingsOf(const Session& session, const StepOptions& options) {
  const api::OptimizerSpec& optimizer = session.training().optimizer;
  const double rate = LearningRateAt(session.training().learning_rate_schedule,
                                     optimizer.learning_rate, options.step, session.total_steps());
  return {.learning_rate = static_cast<float>(rate),
          .step = options.step + 1,
          .clip_norm = optimizer.global_clip_norm,
          .may_skip_in_a_row = options.may_skip_in_a_row,
          .adapts_loss_scale = session.adapts_loss_scale()};
}

StepTail TailOf(const Batch* batch, float stop_request) {
  StepTail tail{.stop_requests = stop_request};
  if (batch == nullptr) return tail;
  SetExamples(tail, batch->valid);
  SetHash(tail, batch->hash_sum);
  return tail;
}

StepTotals TotalsOf(const StepResult& result, bool adapts_loss_scale) {
  const StepTail& tail = result.tail;
  const bool skipped = result.outcome == UpdateOutcome::kSkipped;
  return {.loss = skipped ? 0 : static_cast<double>(tail.loss),
          .correct = skipped ? 0 : static_cast<double>(tail.correct),
          .examples = static_cast<double>(ExamplesOf(tail)),
          .stop_requests = static_cast<double>(tail.stop_requests),
          .gradient_norm = result.gradient_norm,
          .loss_scale = adapts_loss_scale ? std::optional(result.loss_scale) : std::nullopt,
          .hash = HashOf(tail),
          .skipped = skipped};
}

void LoadPart(Session& session, const Batch& batch, int part, PhaseClock& phases) {
  const PhaseTimer timer(phases, Phase::kInput);
  session.Load(batch, part);
}

// Runs forward and loss of the part that is loaded.
void ForwardPart(Session& session, PhaseClock& phases) {
  {
    const PhaseTimer timer(phases, Phase::kForward);
    session.model().Forward(Mode::kTraining);
  }
  session.training_loss().Run();
}

using OnReady = std::function<void(std::int64_t offset, std::int64_t floats)>;

// Runs forward, loss and backward of the last part. Calls `on_ready` as ranges of the sum of the
// parts' gradients become ready.
void RunLastPart(Session& session, PhaseClock& phases, const OnReady& on_ready) {
  ForwardPart(session, phases);
  session.OfferStatesAndTotals();
  on_ready(std::ssize(session.model().gradients()), 0);
  session.model().Backward([&](std::int64_t offset, std::int64_t floats) {
    if (session.parts() > 1) session.AddKeptGradients(offset, floats);
    on_ready(offset, floats);
  });
}

// Runs forward, loss and backward of a part that is not the last.
void RunEarlierPart(Session& session, PhaseClock& phases) {
  ForwardPart(session, phases);
  session.model().Backward([](std::int64_t, std::int64_t) {});
  session.KeepGradients();
}

// Runs forward, loss and backward of each part of the batch. Hands the sum of the parts' gradients
// to the strategy as they become ready, during the last part's backward pass: of a rank that has
// peers, this pass is not recorded, so that the sums over ranks begin meanwhile.
void ComputeGradients(Session& session, Strategy& strategy, const Batch& batch,
                      PhaseClock& phases) {
  const PhaseTimer timer(phases, Phase::kBackward);  // but for what has a timer of its own
  StepRecorder& recorder = session.recorder();
  for (int part = 0; part + 1 < session.parts(); ++part) {
    LoadPart(session, batch, part, phases);
    recorder.Queue(StepPiece::kEarlierPart, [&] { RunEarlierPart(session, phases); });
  }
  LoadPart(session, batch, session.parts() - 1, phases);
  if (session.plan().world == 1) {
    recorder.Queue(StepPiece::kLastPart,
                   [&] { RunLastPart(session, phases, [](std::int64_t, std::int64_t) {}); });
    return;
  }
  RunLastPart(session, phases,
              [&](std::int64_t offset, std::int64_t) { strategy.GradientsReady(offset); });
}

// Gives every rank the parameters that others have updated. CentralStorage: those of rank 0, which
// alone has updated them. If the ranks read them in place, this takes no more than a barrier: rank
// 0 has updated once all ranks' gradients were there, so no rank was still reading. Sharding: of
// each rank its share. A failure does not undo the update. It ends the generation at the next sum,
// or before anything but a step looks at the parameters (TrainLoop), and then rank 0, or all ranks
// together, have the state from which all go on.
void ShareParameters(Session& session, Strategy& strategy, PhaseClock& phases) {
  const UpdateSite site = session.update_site();
  if (site == UpdateSite::kEveryRank || !session.sum_failure().ok()) return;
  const PhaseTimer timer(phases, Phase::kCommunication);
  if (session.shares_parameters()) {
    strategy.Barrier().IgnoreError();
    return;
  }
  if (site != UpdateSite::kRankZero) session.OfferParameters();
  absl::Status shared;
  session.MarkPeerWait([&] { shared = strategy.BroadcastShares(session.update_shares()); });
  if (site != UpdateSite::kThisRank && shared.ok()) session.TakeParameters();
}

// The device may wait for other ranks in a step that is queued. So the host does not wait for the
// step as a whole, but for one part of it after the other, each in its phase.
void AwaitPeers(const Session& session, PhaseClock& phases) {
  for (const Session::PeerWait& wait : session.peer_waits()) {
    wait.begins->Wait();
    const PhaseTimer timer(phases, Phase::kCommunication);
    wait.ends->Wait();
  }
}

// Once the gradients are summed, the device only updates. Without peers there is no such moment.
StepResult AwaitUpdate(Session& session, PhaseClock& phases) {
  const bool has_peers = !session.peer_waits().empty() || session.stage().count > 1;
  const PhaseTimer timer(phases, has_peers ? Phase::kOptimizer : Phase::kBackward);
  return session.EndStep();
}

absl::Status NotFinite(const StepResult& result, std::int64_t step) {
  return absl::OutOfRangeError(fmt::format(
      "step {}: found a loss of {} and a gradient norm of {}, expected finite numbers; "
      "lower spec.training.optimizer.learningRate",
      step + 1,
      static_cast<double>(result.tail.loss) / static_cast<double>(ExamplesOf(result.tail)),
      result.gradient_norm));
}

}  // namespace

absl::StatusOr<const Batch*> NextBatch(Loader& loader, const StepOptions& options,
                                       PhaseClock& phases) {
  options.entered(api::StepPart::kInput);
  const PhaseTimer timer(phases, Phase::kInput);
  LOCKSTEP_ASSIGN_OR_RETURN(const Batch* batch, loader.Next());
  LOCKSTEP_CHECK(batch->step == options.step, "the loader is at step {}, the replica at step {}",
                 batch->step, options.step);
  return batch;
}

void BeginSessionStep(Session& session, const Batch* batch, const StepOptions& options) {
  const std::int64_t examples = session.plan().GlobalExamples(options.step);
  session.BeginStep(SettingsOf(session, options), 1.0f / static_cast<float>(examples),
                    TailOf(batch, options.stop_request));
}

std::optional<LoopOutcome> BeginStep(Session& session, Strategy& strategy, Loader& loader,
                                     const StepOptions& options, PhaseClock& phases) {
  absl::StatusOr<const Batch*> batch = NextBatch(loader, options, phases);
  if (!batch.ok()) return FailedFor(std::move(batch).status());
  options.entered(api::StepPart::kCompute);
  BeginSessionStep(session, *batch, options);
  ComputeGradients(session, strategy, **batch, phases);
  options.entered(api::StepPart::kPeers);
  absl::Status reduced;
  {
    const PhaseTimer timer(phases, Phase::kCommunication);
    session.MarkPeerWait([&] { reduced = strategy.FinishGradients(); });
  }
  options.entered(api::StepPart::kCompute);  // on a host, the whole update: others may wait for it
  {
    const PhaseTimer timer(phases, Phase::kOptimizer);
    session.Update(std::move(reduced));
  }
  options.entered(api::StepPart::kPeers);  // a device with a queue may have begun no sum yet
  ShareParameters(session, strategy, phases);
  return std::nullopt;
}

std::variant<StepTotals, LoopOutcome> EndStep(Session& session, Strategy& strategy,
                                              std::int64_t step, PhaseClock& phases) {
  const PhaseTimer timer(phases, Phase::kBackward);  // what a device with a queue still does
  AwaitPeers(session, phases);
  const StepResult result = AwaitUpdate(session, phases);
  switch (result.outcome) {
    case UpdateOutcome::kApplied:
    case UpdateOutcome::kSkipped:
      strategy.StepEnded(absl::OkStatus());
      return TotalsOf(result, session.adapts_loss_scale());
    case UpdateOutcome::kNotFinite:
      strategy.StepEnded(absl::OkStatus());
      return LoopOutcome{LoopEnd::kDiverged, NotFinite(result, step)};
    case UpdateOutcome::kNotSummed:
    case UpdateOutcome::kClosed:
      break;
  }
  absl::Status reason = session.sum_failure();
  if (reason.ok()) reason = strategy.SumStatus();
  LOCKSTEP_CHECK(!reason.ok(), "step {}: the sum over ranks has failed without a reason", step + 1);
  strategy.StepEnded(reason);
  return EndOfStrategy(std::move(reason));
}

}  // namespace lockstep::train
