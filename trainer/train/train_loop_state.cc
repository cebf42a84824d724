// How the ranks get equal state before the first step of a generation.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "api/v1/names.h"
#include "base/log.h"
#include "base/status.h"
#include "base/stop_signal.h"
#include "trainer/backend/host_view.h"
#include "trainer/checkpoint/average_tensors.h"
#include "trainer/train/initial_weights.h"
#include "trainer/train/snapshot.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {
namespace {

std::span<std::byte> AsBytes(std::span<float> floats) {
  return std::as_writable_bytes(floats);
}

// Says why a run goes back to step `goes_on`, although processes have a later one in memory.
void NoteLostShares(const Membership& membership, std::int64_t goes_on) {
  std::int64_t furthest = -1;
  int lacking = 0;
  for (const Member& member : membership.members) furthest = std::max(furthest, member.step);
  for (const Member& member : membership.members) lacking += member.step < furthest ? 1 : 0;
  if (furthest <= 0 || lacking == 0 || goes_on >= furthest) return;
  LogWarning(
      "the optimizer's state is sharded, and a share of its newest step is lost: the group "
      "goes back",
      {{"newestStep", furthest}, {"ranksWithoutIt", lacking}, {"step", goes_on}});
}

// Returns this process's tensors of a model, in the order of CopyModel. Without data where `model`
// lacks one.
std::vector<NamedTensor> OwnOf(std::vector<NamedTensor> model, Session& session) {
  std::vector<NamedTensor> own;
  for (const TensorName& tensor : OwnNames(session).model) {
    if (IsAverage(tensor.name)) continue;
    const auto found = std::ranges::find(model, tensor.name, &NamedTensor::name);
    own.push_back(found == model.end() ? NamedTensor{.name = tensor.name, .shape = tensor.shape}
                                       : std::move(*found));
  }
  return own;
}

}  // namespace

// All ranks take the state of the rank that is furthest ahead. If none has state, rank 0 reads the
// newest checkpoint and broadcasts it.
TrainLoop::Ended TrainLoop::ShareState(const Membership& membership) {
  if (StageGroups* groups = strategy.stages(); groups != nullptr) {
    return ShareStagesState(membership, *groups);
  }
  if (session.shares_updates()) return ShareShardedState(membership);
  int source = membership.FurthestRank(session.total_steps());
  Ended not_restored;
  if (source < 0) {
    source = 0;
    if (membership.rank == 0) not_restored = RestoreOrInitialize();
  }
  RunState shared = not_restored ? RunState{} : state;
  if (Ended ended = ShareRunState(shared, source, std::move(not_restored))) return ended;
  if (absl::Status received = ShareStateOf(strategy, source, shared); !received.ok()) {
    return EndOfStrategy(std::move(received));
  }
  return std::nullopt;
}

// The ranks go on from the step that they have in memory, each with its share of the optimizer's
// state. Nobody else has the share of a rank that was lost, so that rank 0 then reads the newest
// checkpoint for all.
TrainLoop::Ended TrainLoop::ShareShardedState(const Membership& membership) {
  const bool is_whole = IsWholeInMemory(membership, session.total_steps());
  Ended not_restored;
  if (!is_whole) {
    // What is here is of no use alone, and is about to be overwritten. But no tensor is between two
    // tensors, where an exchange that has failed may have left anything, which the next exchanges
    // would bring among the gradients, and so into their norm.
    state = {};
    best = {};
    const std::span<float> parameters = session.model().parameters();
    session.backend().Zero(parameters.data(), parameters.size_bytes());
    if (membership.rank == 0) not_restored = RestoreOrInitialize();
    if (membership.rank == 0 && !not_restored) NoteLostShares(membership, state.step);
  }
  RunState shared = not_restored ? RunState{} : state;
  if (!is_whole) state = {};  // until this rank, too, has its share
  if (Ended ended = ShareRunState(shared, /*source=*/0, std::move(not_restored))) return ended;
  int source = 0;
  // One rank may have heard the result of its last evaluation, and another not.
  for (int rank = 1; is_whole && rank < membership.world(); ++rank) {
    RunState other = state;
    if (Ended ended = ShareRunState(other, rank, std::nullopt)) return ended;
    if (other.evaluated_step <= shared.evaluated_step) continue;
    shared = other;
    source = rank;
  }
  BestModel received;
  absl::Status done = ShareBest(strategy, source, shared, received);
  if (done.ok()) {
    done = is_whole ? ExchangeParameters(session, strategy)
                    : ScatterState(given.get(), session, strategy);
  }
  if (!done.ok()) return EndOfStrategy(std::move(done));
  state = shared;
  if (received.step != best.step) best = std::move(received);
  if (is_whole) return std::nullopt;
  // Rank 0 may have sent all before all have it, and must not drop it until they do. A rank that
  // has its share offers it even if this fails.
  absl::Status all_have_it = strategy.Barrier();
  if (all_have_it.ok()) return std::nullopt;
  return EndOfStrategy(std::move(all_have_it));
}

// A run does not begin with replicas that have no files to read. One that has begun must not end
// because its group has grown: these replicas read what the files of the others have left over.
TrainLoop::Ended TrainLoop::CheckFiles(int rank) {
  const std::int64_t dealt = session.dealt_files(), replicas = session.plan().world;
  if (dealt == 0 || dealt >= replicas) return std::nullopt;
  if (state.step == 0) return FailedFor(train::CheckFiles(dealt, replicas));
  if (rank != 0 || std::exchange(has_told_of_files, true)) return std::nullopt;
  LogWarning(
      "spec.training.dataset.autoShard: there are fewer training files than replicas; those "
      "without a file of their own read samples of the others' files",
      {{"files", dealt}, {"replicas", replicas}});
  return std::nullopt;
}

// Among ranks that hold the same tensors.
absl::Status TrainLoop::ShareStateOf(Strategy& among, int source, const RunState& shared) {
  BestModel received;
  LOCKSTEP_RETURN_IF_ERROR(ShareBest(among, source, shared, received));
  LOCKSTEP_RETURN_IF_ERROR(ShareTensors(among, source, shared.step));
  state = shared;
  if (received.step != best.step) best = std::move(received);
  return absl::OkStatus();
}

// As ShareTensors: a rank that lacks this model gets it beside the one that belongs to its own
// state.
absl::Status TrainLoop::ShareBest(Strategy& among, int source, const RunState& shared,
                                  BestModel& received) {
  if (!KeepsBest(shared)) return absl::OkStatus();
  received.step = shared.best.step;
  if (session.update_site() == UpdateSite::kThisRank) return absl::OkStatus();  // the only one
  const bool has_it = best.step == received.step;
  if (!has_it) {
    // This rank may hold the model without knowing yet that it is the best one.
    const bool may_have_it = received.step == state.step && !session.shares_updates();
    received.tensors = may_have_it ? CopyModel(session) : OwnOf({}, session);
  }
  for (NamedTensor& tensor : has_it ? best.tensors : received.tensors) {
    tensor.data.resize(static_cast<std::size_t>(tensor.shape.elements()));
    LOCKSTEP_RETURN_IF_ERROR(among.Broadcast(AsBytes(tensor.data), source));
  }
  return absl::OkStatus();
}

// Overwrites `shared` with that of rank `source`. If that could not restore, it broadcasts step -1,
// so that the others do not wait for it, and ends with `not_restored`.
TrainLoop::Ended TrainLoop::ShareRunState(RunState& shared, int source, Ended not_restored) {
  const absl::Status sent =
      strategy.Broadcast(std::as_writable_bytes(std::span(&shared, 1)), source);
  if (not_restored) return not_restored;
  if (!sent.ok()) return EndOfStrategy(sent);
  if (shared.step >= 0) return std::nullopt;
  return LoopOutcome{
      LoopEnd::kGenerationOver,
      absl::UnavailableError(fmt::format(
          "rank {} could not restore or initialize its state; its own log says why", source))};
}

// Among ranks that hold the same tensors. A rank that is at another step stages the new tensors and
// keeps its own until all have arrived: if the source dies half-way, its state is still that of one
// step. The other ranks need no staging: they have the same bytes already, or no state to lose.
absl::Status TrainLoop::ShareTensors(Strategy& among, int source, std::int64_t step) {
  const bool stage = OfferedStep() >= 0 && state.step != step;
  std::vector<HostView> views;
  std::vector<std::vector<float>> staged;
  for (const std::span<float> range : SharedRanges()) {
    if (range.empty()) continue;
    views.emplace_back(session.backend(), range);
    if (stage) staged.emplace_back(range.size());
    LOCKSTEP_RETURN_IF_ERROR(among.Broadcast(
        AsBytes(stage ? std::span<float>(staged.back()) : views.back().floats()), source));
    if (!stage) views.back().Commit();
  }
  for (std::size_t i = 0; i < staged.size(); ++i) {
    std::ranges::copy(staged[i], views[i].floats().begin());
    views[i].Commit();
  }
  return absl::OkStatus();
}

// The tensors that all ranks hold alike, in device memory, but for parameters that they share.
std::vector<std::span<float>> TrainLoop::SharedRanges() const {
  if (session.update_site() == UpdateSite::kEveryRank) return StateRanges();
  if (session.shares_parameters()) return {session.model().states()};
  return {session.model().parameters(), session.model().states()};
}

// The tensors that a checkpoint holds, as far as this rank has them.
std::vector<std::span<float>> TrainLoop::StateRanges() const {
  std::vector<std::span<float>> ranges = {session.model().parameters(), session.model().states()};
  for (int i = 0; i < session.optimizer().slots(); ++i) {
    ranges.push_back(session.optimizer().slot(i));
  }
  return ranges;
}

// The folder may belong to another job that still trains, and gives it up only to one that goes on
// from what is there. It may save until then.
TrainLoop::Ended TrainLoop::RestoreOrInitialize() {
  const PhaseTimer timer(phases, Phase::kCheckpoint);
  if (Ended ended = EndLastSave()) return ended;
  std::optional<ExitAtStopSignal> exits;
  for (bool has_newer = true; has_newer;) {
    // A checkpoint may be large and its volume slow, and what is read of it is still there later.
    const bool is_on_disk = saver == nullptr || saver->UnsavedStep() < 0;
    if (is_on_disk && !exits) exits.emplace(api::kExitPreempted, "the restore");
    if (Ended ended = RestoreNewest()) return ended;
    if (store == nullptr) return std::nullopt;
    // Nothing is left to train: another job keeps its folder. But beside an Evaluator a replica has
    // no test set, and the Evaluator waits until its job has the folder.
    if (IsAtEnd() && session.test_data() != nullptr) return std::nullopt;
    absl::StatusOr<bool> claimed = store->Claim();
    // If what follows fails, the next generation must not go on from this state: there may be a
    // newer one.
    if (!claimed.ok() || *claimed) state = restored = RunState{};
    if (!claimed.ok()) return EndOfStore(std::move(claimed).status());
    has_newer = *claimed;
    if (has_newer && saver != nullptr) saver->DropUnsaved();
  }
  return std::nullopt;
}

// Waits for the save that may be the checkpoint to restore. If it fails, an older one is. Aborted
// is as in LookAtSaver.
TrainLoop::Ended TrainLoop::EndLastSave() {
  if (std::exchange(last_save, {}).step < 0) return std::nullopt;
  absl::Status saved = WaitForSave();
  rendezvous.SetActivity(api::Activity::kSharingState);
  if (absl::IsAborted(saved)) return FailedFor(std::move(saved));
  return std::nullopt;
}

TrainLoop::Ended TrainLoop::RestoreNewest() {
  given.reset();  // before there are two
  // It stays with the saver until all ranks have it: to give it to them may fail.
  std::shared_ptr<const Snapshot> snapshot = saver == nullptr ? nullptr : saver->Unsaved();
  const bool is_saved = snapshot == nullptr;
  if (!is_saved) {
    LogInfo("the group goes on from a state that the first process has, and could not save",
            {{"step", snapshot->step}});
  } else if (store != nullptr) {
    absl::StatusOr<std::optional<Snapshot>> loaded = store->LoadLatest(ModelHash(session));
    if (!loaded.ok()) return EndOfStore(std::move(loaded).status());
    if (*loaded) snapshot = std::make_shared<const Snapshot>(**std::move(loaded));
  }
  if (snapshot == nullptr) return Initialize();
  if (absl::Status status = RestoreSnapshot(*snapshot, session, state); !status.ok()) {
    return FailedFor(std::move(status));
  }
  if (absl::Status status = TakeBest(*snapshot); !status.ok()) return FailedFor(std::move(status));
  if (session.is_divided()) given = snapshot;
  restored = is_saved ? state : RunState{};
  if (is_saved) reporter.Restored(snapshot->step, snapshot->saved);  // it may begin the next epoch
  return std::nullopt;
}

// Takes this process's part of the best model of a run whose `state` has been restored. The run may
// not have kept it, because the job did not ask for it then.
absl::Status TrainLoop::TakeBest(const Snapshot& snapshot) {
  best = {};
  if (!KeepsBest(state)) return absl::OkStatus();
  // The averages were evaluated, if the run had any.
  const bool is_its_own = snapshot.best.empty() && state.best.step == snapshot.step;
  if (snapshot.best.empty() && !is_its_own) {
    LogWarning("the model of the best evaluation was not kept: the best is sought anew",
               {{"checkpointStep", snapshot.step}, {"bestStep", state.best.step}});
    state.best = {};
    return absl::OkStatus();
  }
  std::vector<NamedTensor> model = is_its_own ? WithAverages(snapshot.model) : snapshot.best;
  if (absl::Status fits = ExpectTensors(model, snapshot.optimizer, session); !fits.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("the checkpoint of step {}: the model of its best evaluation: {}",
                    snapshot.step, std::string(fits.message())));
  }
  best = {state.best.step, OwnOf(std::move(model), session)};
  return absl::OkStatus();
}

bool TrainLoop::TakeBestOf(const Snapshot& snapshot) {
  const auto saved = RunStateFromJson(snapshot.state.value("run", nlohmann::json::object()));
  const bool is_same =
      saved.ok() && saved->best.step == state.best.step && saved->best.value == state.best.value;
  const bool has_best = !snapshot.best.empty() || state.best.step == snapshot.step;
  return is_same && has_best && TakeBest(snapshot).ok();
}

// Resets everything: an interrupted broadcast may have left parts of another rank's state here.
TrainLoop::Ended TrainLoop::Initialize() {
  session.model().InitializeParameters();
  absl::StatusOr<std::vector<NamedTensor>> loaded =
      LoadInitialWeights(session.training().initial_weights, *files, session);
  if (!loaded.ok()) return FailedFor(loaded.status());
  session.optimizer().ResetSlots();  // the average begins at the parameters
  if (session.stage().count > 1) {
    Snapshot weights;
    weights.model = *std::move(loaded);
    given = std::make_shared<const Snapshot>(std::move(weights));
  }
  state = RunState{.step = 0};
  best = {};
  restored = {};
  return std::nullopt;
}

}  // namespace lockstep::train
