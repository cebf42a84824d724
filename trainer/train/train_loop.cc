#include "trainer/train/train_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "api/v1/activity.h"
#include "trainer/export/export_at_end.h"
#include "trainer/train/evaluate.h"
#include "trainer/train/snapshot.h"
#include "trainer/train/stage_step.h"
#include "trainer/train/train_step.h"

namespace lockstep::train {

std::int64_t TrainLoop::OfferedStep() const {
  return session.update_site() == UpdateSite::kRankZero ? -1 : state.step;
}

std::int64_t TrainLoop::StepInMemory() const {
  return std::max(state.step, saver == nullptr ? -1 : saver->UnsavedStep());
}

LoopOutcome TrainLoop::Run(const Membership& membership) {
  tries_to_leave = 0;
  if (Ended ended = Enter(membership)) return *std::move(ended);
  reporter.GenerationStarted(membership, strategy, state);
  LoopOutcome outcome = RunSteps(membership.rank);
  reporter.Flush(state);
  return outcome;
}

// Does what the ranks must do together before the first step.
TrainLoop::Ended TrainLoop::Enter(const Membership& membership) {
  const PhaseTimer timer(phases, Phase::kRendezvous);
  if (absl::Status connected = strategy.Connect(membership, rendezvous.store()); !connected.ok()) {
    if (!strategy.TrustsAddresses()) rendezvous.WithholdAddress();
    return EndOfStrategy(std::move(connected));
  }
  rendezvous.SetActivity(api::Activity::kSharingState);
  Ended not_shared = ShareState(membership);
  given.reset();
  if (not_shared) return not_shared;
  if (saver != nullptr) saver->DropUnsaved();  // the ranks have what is newer, or this
  return CheckFiles(membership.rank);
}

LoopOutcome TrainLoop::RunSteps(int rank) {
  const std::unique_ptr<Loader> loader = MakeLoader(rank);
  session.OpenGate({.skipped_in_a_row = state.skipped_in_a_row,
                    .skipped_steps = state.StepsWithoutUpdate(),
                    .loss_scale = state.loss_scale});
  // The last generation may have ended before it did what is due at its last step.
  if (Ended ended = EvaluateAndSaveIfDue(rank)) return *std::move(ended);
  // A device with a queue gets the next step while it works on one, so that it never waits for the
  // host; but everything that looks at the state finds no step begun, and after a sum that is known
  // to have failed none is begun.
  const std::int64_t ahead = session.steps_ahead();
  std::int64_t begun = state.step;
  double stop_requests = 0;
  while (!IsAtEnd()) {
    if (stop_requests == 0 && MayBegin(begun, ahead)) {
      if (Ended failed = BeginStep(loader.get(), begun, rank))
        return EndBegun(begun, *std::move(failed));
      if (MayBegin(++begun, ahead)) continue;
    }
    StepTotals totals;
    if (Ended ended = EndStep(totals)) return *std::move(ended);
    if (Ended ended = LookAtSaver()) return *std::move(ended);
    stop_requests += totals.stop_requests;
    if (stop_requests > 0 && state.step < begun) continue;  // what was begun counts
    if (stop_requests > 0 || IsStateDue(state.step)) {
      if (Ended lost = ConfirmParameters()) return *std::move(lost);
    }
    if (Ended ended = LeaveIfAsked(std::exchange(stop_requests, 0), rank)) return *std::move(ended);
    if (Ended ended = EvaluateAndSaveIfDue(rank)) return *std::move(ended);
  }
  reporter.RunDone(state);
  return SaveAndEnd(LoopEnd::kDone, rank);
}

// Null in a stage that is not the first: it gets what it needs from the stage before.
std::unique_ptr<Loader> TrainLoop::MakeLoader(int rank) const {
  if (!session.stage().is_first()) return nullptr;
  BegunEpoch begun;
  if (state.epoch_replicas != 0) {
    begun = {.epoch = session.plan().Epoch(state.step), .replicas = state.epoch_replicas};
  }
  std::unique_ptr<Loader> loader =
      Loader::Create(session.train_data(), session.TrainingReads(session.PipelineOf(rank), begun));
  loader->Seek(state.step);
  return loader;
}

TrainLoop::Ended TrainLoop::EvaluateAndSaveIfDue(int rank) {
  if (Ended ended = EvaluateIfDue(rank)) return ended;
  return SaveIfDue(rank);
}

// Returns `failed` once the steps before `begun` have ended; or, as on a host's device, the end
// that one of them brings.
LoopOutcome TrainLoop::EndBegun(std::int64_t begun, LoopOutcome failed) {
  StepTotals totals;
  while (state.step < begun) {
    if (Ended ended = EndStep(totals)) return *std::move(ended);
  }
  return failed;
}

// True if the step after `begun` ones may be begun, of which at most `ahead` lack a result.
bool TrainLoop::MayBegin(std::int64_t begun, std::int64_t ahead) const {
  if (begun >= session.total_steps() || begun - state.step >= ahead) return false;
  return begun == state.step || (!IsStateDue(begun) && session.sum_failure().ok());
}

// True if evaluation, a checkpoint or the end of the run needs the state after `step` steps.
bool TrainLoop::IsStateDue(std::int64_t step) const {
  const std::int64_t every = session.training().checkpoint.every_steps;
  return step == session.total_steps() || (every > 0 && step % every == 0) ||
         session.plan().StepInEpoch(step) == 0;
}

// CentralStorage and sharding: makes sure that all ranks have the parameters that others have
// updated before anything looks at them. A broadcast that has failed leaves anything there, and a
// step's outcome does not tell: the updates count all the same. Where the ranks' GPUs broadcast,
// one may have received what an aborted peer left and not know it, so all must say here that they
// know of no failure. Requires: no step is begun.
TrainLoop::Ended TrainLoop::ConfirmParameters() {
  if (session.update_site() == UpdateSite::kEveryRank) return std::nullopt;
  const PhaseTimer timer(phases, Phase::kCommunication);
  session.backend().Synchronize();  // the broadcast may still be queued
  absl::Status confirmed = strategy.SumStatus();
  if (confirmed.ok()) confirmed = strategy.Barrier();
  if (confirmed.ok()) return std::nullopt;
  return EndOfStrategy(std::move(confirmed));
}

TrainLoop::Ended TrainLoop::BeginStep(Loader* loader, std::int64_t step, int rank) {
  rendezvous.SetActivity(api::Activity::kStep);
  const StepOptions options{
      .step = step,
      .stop_request = StopRequest(rank),
      .may_skip_in_a_row = session.training().max_skipped_steps,
      .entered = [this](api::StepPart part) { rendezvous.SetStepPart(part); }};
  if (strategy.stages() != nullptr) {
    return RunStageStep(session, strategy, loader, options, phases);
  }
  return train::BeginStep(session, strategy, *loader, options, phases);
}

TrainLoop::Ended TrainLoop::EndStep(StepTotals& totals) {
  auto step = train::EndStep(session, strategy, state.step, phases);
  if (auto* ended = std::get_if<LoopOutcome>(&step)) return std::move(*ended);
  totals = std::get<StepTotals>(step);
  ApplyStep(totals, session.plan(), state);
  reporter.StepDone(totals, state);
  if (session.plan().StepInEpoch(state.step) == 0) reporter.EpochDone(state);
  return std::nullopt;
}

TrainLoop::Ended TrainLoop::EvaluateIfDue(int rank) {
  return EvaluateIfDue(rank, [&] {
    auto evaluated = Evaluate(session, strategy, rank, [&] { return EvaluationGoesOn(rank); });
    if (auto* ended = std::get_if<LoopOutcome>(&evaluated)) return Evaluated(std::move(*ended));
    return Evaluated(std::get<Evaluation>(evaluated));
  });
}

// The ranks agree after each batch whether they go on.
TrainLoop::Ended TrainLoop::EvaluationGoesOn(int rank) {
  float stop_requests = StopRequest(rank);
  if (absl::Status summed = strategy.Sum({&stop_requests, 1}); !summed.ok()) {
    return EndOfStrategy(std::move(summed));
  }
  reporter.BatchEvaluated();
  Ended ended = LeaveIfAsked(static_cast<double>(stop_requests), rank);
  rendezvous.SetActivity(api::Activity::kEvaluation);
  return ended;
}

bool TrainLoop::IsEvaluationDue() const {
  if (session.test_data() == nullptr || state.evaluated_step == state.step) return false;
  if (IsAtEnd()) return true;
  const StepPlan& plan = session.plan();
  if (state.step == 0 || plan.StepInEpoch(state.step) != 0) return false;
  return plan.Epoch(state.step) % session.training().evaluation.every_epochs == 0;
}

TrainLoop::Ended TrainLoop::EvaluateIfDue(int rank, const std::function<Evaluated()>& evaluate) {
  if (!IsEvaluationDue()) return std::nullopt;
  rendezvous.SetActivity(api::Activity::kEvaluation);
  auto evaluated = [&]() -> Evaluated {
    const PhaseTimer timer(phases, Phase::kEvaluation);
    const AverageInPlace average(session.optimizer());
    if (Ended lost = ShareAverage()) return *std::move(lost);
    return evaluate();
  }();
  if (auto* ended = std::get_if<LoopOutcome>(&evaluated)) return std::move(*ended);
  if (Ended lost = ShareAverage()) return lost;
  const auto& evaluation = std::get<0>(evaluated);
  if (!evaluation) return SaveAndEnd(LoopEnd::kStopped, rank);
  if (Ended diverged = DivergedFor(state.step, evaluation->loss)) return diverged;
  RunState next = state;
  next.evaluated_step = state.step;
  next.test_loss = evaluation->loss;
  next.test_accuracy = evaluation->accuracy;
  next.test_metrics = {evaluation->metrics, session.training().evaluation};
  next.evaluated_on = session.EvaluationDigest();
  if (const auto& stopping = session.training().early_stopping) {
    CountEvaluation(*stopping, session.plan(), next);
    const bool is_best = KeepsBest(next) && next.best.step == next.step;
    if (Ended lost = is_best ? KeepBestModel() : std::nullopt) return lost;
  }
  state = next;
  reporter.Evaluated(state);
  return std::nullopt;
}

// Before `state` says that this is the best one: if a rank is lost meanwhile, it is evaluated
// again.
TrainLoop::Ended TrainLoop::KeepBestModel() {
  // Each rank has all parameters; only of an average it may have a share.
  if (!session.shares_updates() || !session.optimizer().has_average()) {
    best = {};  // before there are two
    best = {state.step, CopyModel(session)};
    return std::nullopt;
  }
  absl::StatusOr<std::vector<NamedTensor>> model = GatherModel(session, strategy, /*wants=*/true);
  if (!model.ok()) return EndOfStrategy(std::move(model).status());
  best = {state.step, *std::move(model)};
  return std::nullopt;
}

// A process that takes part again gets what was lost with it from another rank; but the rank that
// updates the parameters for all keeps all that must not be lost.
bool TrainLoop::KeepsBest(const RunState& of) const {
  return RestoresBest(session.training(), of) && session.update_site() != UpdateSite::kRankZero;
}

// CentralStorage: rank 0 alone has the average; sharding: each rank has its share of it. While that
// is in place, it is what the others evaluate, like the parameters that they train with afterwards:
// they get them again then. No rank reads in place what rank 0 exchanges, because the sum of an
// evaluation is made when all have done theirs.
TrainLoop::Ended TrainLoop::ShareAverage() {
  if (session.update_site() == UpdateSite::kEveryRank || !session.training().ema) {
    return std::nullopt;
  }
  absl::Status shared = session.shares_updates() ? ExchangeParameters(session, strategy)
                                                 : ShareTensors(strategy, /*source=*/0, state.step);
  if (shared.ok()) shared = strategy.Barrier();
  if (shared.ok()) return std::nullopt;
  return EndOfStrategy(std::move(shared));
}

// A finite gradient can still produce an update that is not. All ranks check before a save, so that
// all end alike.
TrainLoop::Ended TrainLoop::CheckParameters() {
  bool finite = std::ranges::all_of(StateRanges(), [&](std::span<float> range) {
    return session.backend().AllFinite(range.data(), std::ssize(range));
  });
  if (Ended ended = AgreeOnFinite(finite)) return ended;
  if (finite) return std::nullopt;
  return LoopOutcome{LoopEnd::kDiverged,
                     absl::OutOfRangeError(fmt::format(
                         "step {}: found parameters, running statistics or optimizer state that "
                         "are not finite; lower spec.training.optimizer.learningRate, or look for "
                         "samples with huge values",
                         state.step))};
}

TrainLoop::Ended TrainLoop::SaveIfDue(int rank) {
  const std::int64_t every = session.training().checkpoint.every_steps;
  if (every == 0 || state.step == 0 || state.step % every != 0) return std::nullopt;
  if (IsAtEnd()) return std::nullopt;  // SaveAndEnd follows
  const PhaseTimer timer(phases, Phase::kCheckpoint);
  if (Ended diverged = CheckParameters()) return diverged;
  // Training continues if the save fails: a disk that is full may have room at the next checkpoint.
  const bool is_new = state != restored && state != last_save;
  const bool saves = rank == 0 && saver != nullptr && is_new;
  const Gathers needs = saves ? Gathers::kAll : Gathers::kNothing;
  if (Ended ended = GatherIfDivided(needs, rank)) return ended;
  if (saves) StartSave();
  return std::nullopt;
}

void TrainLoop::StartSave() {
  rendezvous.SetActivity(api::Activity::kCheckpoint);
  last_save = state;
  saver->Save(MakeSnapshot(session, state, clock.Now(), TensorsToSave()),
              /*keeps=*/session.is_divided());
}

absl::Status TrainLoop::WaitForSave() {
  rendezvous.SetActivity(api::Activity::kCheckpoint);
  return saver->Wait();
}

LoopOutcome TrainLoop::SaveAlone() {
  if (saver == nullptr) return {.end = LoopEnd::kStopped, .reason = {}};
  if (session.is_divided()) {
    absl::Status last = WaitForSave();
    // The save for a pod that has left may have failed, and what it was to save is still here.
    const std::int64_t unsaved = saver->SaveAgain();
    if (unsaved >= 0) last = WaitForSave();
    if (!last.ok() && (unsaved >= 0 || absl::IsAborted(last))) return {LoopEnd::kStopped, last};
    if (unsaved >= 0 && unsaved == state.step) last_save = state;
    const bool is_saved = state == restored || (state == last_save && last.ok());
    if (state.step <= 0 || is_saved) return {LoopEnd::kStopped, {}};
    return {
        LoopEnd::kStopped,
        absl::UnavailableError(fmt::format(
            "a checkpoint needs all {}, and the processes that have the others are not connected",
            session.shares_updates() ? "shares of the optimizer's state" : "stages of the model"))};
  }
  if (state.step <= 0) return {LoopEnd::kStopped, {}};
  return SaveAndEnd(LoopEnd::kStopped, /*rank=*/0);
}

// Reports a failed save and continues, because the next one may succeed. Aborted ends the run: a
// newer process owns the folder, so this one has been replaced.
TrainLoop::Ended TrainLoop::LookAtSaver() {
  if (saver == nullptr) return std::nullopt;
  AsyncSaver::Outcome outcome = saver->outcome();
  reporter.CheckpointOutcome(outcome);
  if (!absl::IsAborted(outcome.status)) return std::nullopt;
  return FailedFor(std::move(outcome.status));
}

LoopOutcome TrainLoop::SaveAndEnd(LoopEnd end, int rank) {
  const PhaseTimer timer(phases, Phase::kCheckpoint);
  if (Ended diverged = CheckParameters()) return *std::move(diverged);
  const std::string& export_to = session.training().checkpoint.export_to;
  const bool exports = end == LoopEnd::kDone && !export_to.empty() && state != exported;
  const bool saves = saver != nullptr && state != restored;
  const Gathers needs = saves ? Gathers::kAll : exports ? Gathers::kModel : Gathers::kNothing;
  if (Ended ended = GatherIfDivided(needs, rank)) return *std::move(ended);
  if (rank != 0) return {.end = end, .reason = absl::OkStatus()};
  const bool is_divided = session.is_divided();
  std::vector<NamedTensor> to_export;
  if (exports && is_divided) to_export = ModelToExport(saves);
  absl::Status kept = SaveAtEnd();
  gathered_tensors = {};  // it may have been saved before
  if (end == LoopEnd::kStopped && !absl::IsAborted(kept)) return {end, std::move(kept)};
  if (kept.ok() && exports) {
    rendezvous.SetActivity(api::Activity::kCheckpoint);
    const bool is_best = KeepsBest(state);
    if (!is_divided) to_export = is_best ? best.tensors : CopyModel(session);
    kept = ExportAtEnd(export_to,
                       {.origin = "",
                        .step = is_best ? best.step : state.step,
                        .model = session.model_description(),
                        .tensors = std::move(to_export)},
                       writer, *files);
    if (kept.ok()) exported = state;
  }
  if (!kept.ok()) return EndOfStore(std::move(kept));
  return {.end = end, .reason = absl::OkStatus()};
}

absl::Status TrainLoop::SaveAtEnd() {
  // Nothing is new since the restore: a disk that has filled up meanwhile must not fail a run whose
  // state it already holds.
  const bool on_disk = state == restored;
  if (saver == nullptr || on_disk) return absl::OkStatus();
  const bool is_best = IsBest();
  // Only the evaluation is new, which does not justify taking the folder from a job that may train
  // there; unless it has made this step's model the best one, and the checkpoint has another.
  const bool is_restored = state.step == restored.step;
  const bool has_other_best = is_best && restored.best.step >= 0;
  absl::Status saved = WaitForSave();  // this step's save may still run, and uses the store
  if (is_restored && !has_other_best && !store->IsClaimed()) return absl::OkStatus();
  // Compares whole states, not steps. After parameter servers have lost their values, a run repeats
  // steps, and an earlier save of this step may be damaged; and a save for another pod's stop may
  // precede this step's evaluation.
  if (last_save != state || !saved.ok()) {
    // A checkpoint on disk does not say yet that this model is the best one.
    const bool has_tensors =
        !is_best && (is_restored || (last_save.step == state.step && saved.ok()));
    StartSave();
    saved = WaitForSave();
    // The next generation begins at this step, and tries again if a save is due at it.
    if (!saved.ok()) last_save = {};
    // Everything but the evaluation is on disk.
    if (!saved.ok() && has_tensors && !absl::IsAborted(saved)) {
      restored = state;
      saver->DropUnsaved();  // which is worth no more tries
      saved = absl::OkStatus();
    }
  }
  reporter.CheckpointOutcome(saver->outcome());
  return saved;
}

}  // namespace lockstep::train
