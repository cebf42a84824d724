// Converts between a session in memory and a checkpoint's contents.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/checkpoint/store.h"
#include "trainer/train/run_state.h"
#include "trainer/train/session.h"
#include "trainer/train/state_tensors.h"

namespace lockstep::train {

// `now` becomes Snapshot::saved. `tensors`: those of all stages.
Snapshot MakeSnapshot(Session& session, const RunState& state, Time now, StateTensors tensors);
Snapshot MakeSnapshot(Session& session, const RunState& state, Time now);  // of one stage

// Returns the number of training samples of the run that saved `state` (Snapshot::state); nullopt
// if it does not say.
std::optional<std::int64_t> TrainingExamples(const nlohmann::json& state);

// Restores model, optimizer and `state`; of a stage, its own tensors. If the run averages its
// parameters and the snapshot has no averages, they begin at its parameters, which is logged. Drops
// the last evaluation and the best one if they were of another test set or loss. If the number of
// training samples differs, moves `state` to the beginning of the next epoch (unless it is at one)
// and logs a warning, because the position within an epoch says which samples were used only for
// the samples that the epoch began with. If only their digest differs, just logs a warning.
// FailedPrecondition (names both sides): the snapshot was saved with another number of steps per
// epoch, global batch, seed, shuffle, autoShard or optimizer, or with another number of samples in
// the middle of the last epoch; or it lacks a tensor, or has it with another shape or type.
// DataLoss: its run state is malformed or of another step. On failure, `session` and `state` are
// unchanged.
absl::Status RestoreSnapshot(const Snapshot& snapshot, Session& session, RunState& state);

// Restores only what evaluation needs: parameters and running statistics; of a run that averages
// its parameters, their averages in their place, if the snapshot has them; of one that restores its
// best model, that one, which is what an export takes from the checkpoint, too. The snapshot may
// lack the optimizer's tensors, and its position in an epoch does not matter. FailedPrecondition:
// another setting or a tensor does not match, as for RestoreSnapshot. The run state is not read, so
// there is no DataLoss.
absl::Status RestoreModel(const Snapshot& snapshot, Session& session);

}  // namespace lockstep::train
