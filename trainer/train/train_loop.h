// One generation of training, from its membership to the end of the run or of the generation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainer/checkpoint/async_saver.h"
#include "trainer/export/model_file.h"
#include "trainer/observe/phase_clock.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/evaluate.h"
#include "trainer/train/loop_outcome.h"
#include "trainer/train/reporter.h"
#include "trainer/train/run_state.h"
#include "trainer/train/session.h"
#include "trainer/train/share_tensors.h"
#include "trainer/train/snapshot.h"
#include "trainer/train/stage_state.h"
#include "trainer/train/train_step.h"

namespace lockstep::train {

// The referenced objects live as long as the process. `store` and `saver` are null without
// checkpoints; only rank 0 uses them, and exports the model at the end.
struct TrainLoop {
  Session& session;
  Strategy& strategy;
  Rendezvous& rendezvous;
  CheckpointStore* store;
  AsyncSaver* saver;
  Reporter& reporter;
  PhaseClock& phases;
  const Clock& clock;
  RunState state = {};
  RunState restored = {};                 // what this process knows to be in a checkpoint
  RunState last_save = {};                // what the last save since then was started with
  RunState exported = {};                 // what this process has exported
  FileSystem* files = &RealFileSystem();  // of the initial weights and of the exported model
  ModelWriter writer = {};                // this process, which exports

  // Since when the group keeps its number of workers, because rank 0 could not save for another.
  struct KeepsWorkers {
    std::int64_t saves = 0;  // of rank 0 that had succeeded by then
    SteadyTime at;
  };
  // If the model is cut into stages or the optimizer's state is sharded, on rank 0: what it gives
  // all ranks when a generation begins (the newest checkpoint, or what it could not save; initial
  // weights alone have no step); and what they have given it for a save.
  std::shared_ptr<const Snapshot> given = {};
  StateTensors gathered_tensors = {};

  // That of `state`, if KeepsBest; else anything.
  BestModel best = {};

  std::optional<KeepsWorkers> keeps_workers = {};
  bool has_told_of_files = false;  // that there are fewer than replicas
  int tries_to_leave = 0;          // for another number of workers, in this generation

  // On any outcome, `state` and the session are those of the last applied step.
  LoopOutcome Run(const Membership& membership);
  // Saves what is in memory outside of a generation: `state`, or what the latest save has failed to
  // save, if that is kept. Returns kStopped, with Ok if it is saved, if this process does not save
  // checkpoints or if it has nothing new to save; else with the reason. Other ends as for
  // SaveAndEnd.
  LoopOutcome SaveAlone();
  // Between generations. Returns true if this process, rank 0, must leave for another number of
  // workers: what the group has in memory is saved, or can never be. Puts the number off if a later
  // save may succeed.
  bool SavesForNewWorkers();
  // Returns the step of the state that this process can give to its group; -1 if it has none, as a
  // rank whose parameters rank 0 updates: it lacks the optimizer's state.
  std::int64_t OfferedStep() const;
  // Returns the newest step that this process could save, alone or with its group, or has kept
  // because it could not; -1: none.
  std::int64_t StepInMemory() const;

  // The parts that strategies without a group use, too. `rank` 0 saves and reports.
  using Ended = std::optional<LoopOutcome>;  // nullopt: training continues
  using Evaluated = std::variant<std::optional<Evaluation>, LoopOutcome>;
  // Restores the newest checkpoint (before it, what the latest save has failed to save, if that is
  // kept), or initializes the model if there is none; then claims the
  // checkpoint folder, unless nothing but an evaluation is left to do.
  Ended RestoreOrInitialize();
  // No step is left to do: `state` is that of the last step, or beyond it, with a checkpoint of a
  // longer run; or the run has stopped early.
  bool IsAtEnd() const {
    return state.step >= session.total_steps() || HasStoppedEarly(session.training(), state);
  }
  bool IsEvaluationDue() const;  // of `state`
  // Returns true if this rank has, or is to have, the model of the best evaluation of `of`: the run
  // ends with it, and this rank saves or may have to give it to the others.
  bool KeepsBest(const RunState& of) const;
  // Returns true if that model is the one of `state`.
  bool IsBest() const { return KeepsBest(state) && state.best.step == state.step; }
  bool HasOtherBest() const { return KeepsBest(state) && !IsBest(); }
  // Takes that of `state` from a checkpoint. Returns false if it is not there.
  bool TakeBestOf(const Snapshot& snapshot);
  Ended EvaluateIfDue(int rank, const std::function<Evaluated()>& evaluate);
  Ended CheckParameters();
  // Saves a state that has not been saved yet, if its step is one of checkpoint.everySteps.
  Ended SaveIfDue(int rank);
  // Starts a save of `state`, or waits for the latest one. Both may take as long as the disk, so
  // they tell the group that this rank saves. Require a saver.
  void StartSave();
  absl::Status WaitForSave();
  // Saves `state` unless it is saved. With kDone, then exports the model unless this process has:
  // the generation may be formed again, but an earlier process may have failed half-way. A failure
  // of either is the end then. With kStopped, a failed save is its reason: this process may go on,
  // and has the state in memory. Whatever `end` is, a state that is not finite ends with kDiverged,
  // and a folder that a newer process owns with kFailed.
  LoopOutcome SaveAndEnd(LoopEnd end, int rank);
  Ended LookAtSaver();

 private:
  Ended Enter(const Membership& membership);
  Ended CheckFiles(int rank);
  Ended EndLastSave();
  Ended RestoreNewest();
  absl::Status TakeBest(const Snapshot& snapshot);
  Ended Initialize();
  LoopOutcome RunSteps(int rank);
  // How a generation ends for pods that stop, and for another number of workers.
  float StopRequest(int rank);
  Ended LeaveIfAsked(double stop_requests, int rank);
  Ended LeaveForNewWorkers(int rank);
  Ended AwaitSave(const std::string& key);
  Ended PutOffNewWorkers(int rank, const absl::Status& unsaved);
  Ended EvaluateAndSaveIfDue(int rank);
  bool MayBegin(std::int64_t begun, std::int64_t ahead) const;
  bool IsStateDue(std::int64_t step) const;
  std::unique_ptr<Loader> MakeLoader(int rank) const;
  Ended BeginStep(Loader* loader, std::int64_t step, int rank);
  Ended EndStep(StepTotals& totals);
  Ended ConfirmParameters();
  absl::Status SaveAtEnd();
  LoopOutcome EndBegun(std::int64_t begun, LoopOutcome failed);
  Ended ShareState(const Membership& membership);
  Ended ShareRunState(RunState& shared, int source, Ended not_restored);
  absl::Status ShareTensors(Strategy& among, int source, std::int64_t step);
  absl::Status ShareBest(Strategy& among, int source, const RunState& shared, BestModel& received);
  absl::Status ShareStateOf(Strategy& among, int source, const RunState& shared);
  Ended ShareStagesState(const Membership& membership, StageGroups& groups);
  Ended GatherIfDivided(Gathers needs, int rank);
  Ended ShareShardedState(const Membership& membership);
  Ended KeepBestModel();
  StateTensors TensorsToSave();
  std::vector<NamedTensor> BestToSave() const;
  std::vector<NamedTensor> ModelToExport(bool is_saved_too);
  Ended AgreeOnFinite(bool& finite);
  std::vector<std::span<float>> StateRanges() const;
  std::vector<std::span<float>> SharedRanges() const;
  Ended EvaluateIfDue(int rank);
  Ended EvaluationGoesOn(int rank);
  Ended ShareAverage();
};

}  // namespace lockstep::train
