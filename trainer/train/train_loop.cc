#include "trainer/train/train_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "api/base/status.h"
#include "trainer/train/evaluate.h"
#include "trainer/train/snapshot.h"
#include "trainer/train/train_step.h"

namespace lockstep::train {
namespace {

std::span<std::byte> AsBytes(std::span<float> floats) {
  return std::as_writable_bytes(floats);
}

bool IsEvaluationDue(const Session& session, const RunState& state) {
  if (session.test_data() == nullptr || state.evaluated_step == state.step) return false;
  if (state.step == session.total_steps()) return true;
  const StepPlan& plan = session.plan();
  if (state.step == 0 || plan.StepInEpoch(state.step) != 0) return false;
  return plan.Epoch(state.step) % session.training().evaluation.every_epochs == 0;
}

}  // namespace

absl::StatusOr<LoopEnd> TrainLoop::Run(const Membership& membership) {
  const int rank = membership.rank;
  LOCKSTEP_RETURN_IF_ERROR(strategy.Connect(membership, rendezvous.store()));
  rendezvous.SetActivity(api::Activity::kSharingState);
  LOCKSTEP_RETURN_IF_ERROR(ShareState(membership));
  reporter.GenerationStarted(membership, strategy, state);

  const api::DatasetSpec& dataset = session.training().dataset;
  const auto loader = Loader::Create(session.train_data(),
                                     {.plan = session.plan(),
                                      .rank = rank,
                                      .seed = static_cast<std::uint64_t>(session.training().seed),
                                      .shuffle = dataset.shuffle,
                                      .prefetch = dataset.prefetch});
  loader->Seek(state.step);
  LOCKSTEP_RETURN_IF_ERROR(EvaluateIfDue(rank));
  while (state.step < session.total_steps()) {
    rendezvous.SetActivity(api::Activity::kStep);
    LOCKSTEP_ASSIGN_OR_RETURN(
        const StepTotals totals,
        TrainStep(session, strategy, *loader, state.step, rendezvous.StopRequested(), seconds));
    ApplyStep(totals, session.plan(), state);
    reporter.StepDone(totals, state, seconds);
    if (saver != nullptr) reporter.CheckpointOutcome(saver->outcome());
    if (!std::isfinite(totals.loss)) return LoopEnd::kDiverged;
    if (session.plan().StepInEpoch(state.step) == 0) reporter.EpochDone(state);
    if (totals.stop_requests > 0) {
      LOCKSTEP_RETURN_IF_ERROR(SaveAndWait(rank));
      reporter.Flush(state, seconds);
      return LoopEnd::kStopped;
    }
    LOCKSTEP_RETURN_IF_ERROR(EvaluateIfDue(rank));
    SaveIfDue(rank);
  }
  LOCKSTEP_RETURN_IF_ERROR(SaveAndWait(rank));
  reporter.Flush(state, seconds);
  return LoopEnd::kDone;
}

// Everybody takes the state of the rank that is furthest; if nobody has any, of the newest
// checkpoint, which the leading rank alone reads.
absl::Status TrainLoop::ShareState(const Membership& membership) {
  int source = membership.FurthestRank(session.total_steps());
  absl::Status restored;
  if (source < 0) {
    source = 0;
    if (membership.rank == 0) restored = RestoreOrInitialize();
  }
  // A rank 0 that cannot restore must not leave the others waiting: they see its step as -1.
  RunState shared = restored.ok() ? state : RunState{};
  LOCKSTEP_RETURN_IF_ERROR(
      strategy.Broadcast(std::as_writable_bytes(std::span(&shared, 1)), source));
  if (!restored.ok()) return restored;
  if (shared.step < 0) {
    return absl::UnavailableError(
        fmt::format("rank {} could not restore a checkpoint; its own log says why", source));
  }
  LOCKSTEP_RETURN_IF_ERROR(ShareTensors(source, shared.step));
  state = shared;
  return absl::OkStatus();
}

// A rank that is behind keeps its own numbers until it has all of the new ones: if the source dies
// half-way, its memory is still that of one step. On the other ranks the bytes are the same already
// or there was nothing to lose.
absl::Status TrainLoop::ShareTensors(int source, std::int64_t step) {
  std::vector<std::span<float>> ranges = {session.model().parameters(), session.model().states()};
  for (int i = 0; i < session.optimizer().slots(); ++i) {
    ranges.push_back(session.optimizer().slot(i));
  }
  const bool stage = state.step >= 0 && state.step < step;
  std::vector<std::vector<float>> staged;
  for (const std::span<float> range : ranges) {
    if (range.empty()) continue;
    if (stage) staged.emplace_back(range.size());
    LOCKSTEP_RETURN_IF_ERROR(
        strategy.Broadcast(AsBytes(stage ? std::span<float>(staged.back()) : range), source));
  }
  std::size_t next = 0;
  for (const std::span<float> range : ranges) {
    if (!stage || range.empty()) continue;
    std::copy(staged[next].begin(), staged[next].end(), range.begin());
    ++next;
  }
  return absl::OkStatus();
}

absl::Status TrainLoop::RestoreOrInitialize() {
  std::optional<Snapshot> snapshot;
  if (store != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(snapshot, store->LoadLatest(ModelHash(session)));
  }
  if (!snapshot) {
    session.model().InitializeParameters();
    state = RunState{.step = 0};
    return absl::OkStatus();
  }
  LOCKSTEP_RETURN_IF_ERROR(RestoreSnapshot(*snapshot, session, state));
  reporter.Restored(state);
  return absl::OkStatus();
}

absl::Status TrainLoop::EvaluateIfDue(int rank) {
  if (!IsEvaluationDue(session, state)) return absl::OkStatus();
  rendezvous.SetActivity(api::Activity::kEvaluation);
  const PhaseTimer timer(seconds.evaluation);
  LOCKSTEP_ASSIGN_OR_RETURN(const Evaluation evaluation, Evaluate(session, strategy, rank));
  state.evaluated_step = state.step;
  state.test_loss = evaluation.loss;
  state.test_accuracy = evaluation.accuracy;
  reporter.Evaluated(state);
  return absl::OkStatus();
}

void TrainLoop::SaveIfDue(int rank) {
  const std::int64_t every = session.training().checkpoint.every_steps;
  if (rank != 0 || saver == nullptr || every == 0 || state.step % every != 0) return;
  if (state.step == session.total_steps()) return;  // SaveAndWait follows
  const PhaseTimer timer(seconds.checkpoint);
  // A disk that is full now may have room at the next checkpoint: training goes on meanwhile.
  saver->Save(MakeSnapshot(session, state));
}

absl::Status TrainLoop::SaveAndWait(int rank) {
  if (rank != 0 || saver == nullptr) return absl::OkStatus();
  rendezvous.SetActivity(api::Activity::kCheckpoint);
  const PhaseTimer timer(seconds.checkpoint);
  if (saver->outcome().last_saved_step != state.step) saver->Save(MakeSnapshot(session, state));
  const absl::Status status = saver->Wait();
  reporter.CheckpointOutcome(saver->outcome());
  return status;
}

}  // namespace lockstep::train
