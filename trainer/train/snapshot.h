// Converts between a session in memory and a checkpoint's contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/checkpoint/store.h"
#include "trainer/train/run_state.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// Returns a hash of the names and shapes of the model's tensors. It does not depend on their memory
// layout.
std::string ModelHash(Session& session);

// What a checkpoint holds of a run besides its position. `best`: the model of the best evaluation;
// empty: it is `model`, or the run does not keep it.
struct StateTensors {
  std::vector<NamedTensor> model, optimizer, best = {};
};
// Returns copies of the model's tensors (parameters and running statistics) and the optimizer's; of
// a stage, its own.
StateTensors CopyTensors(Session& session);
std::vector<NamedTensor> CopyModel(Session& session);  // those of the model alone

// The model of a run's best evaluation, if the run ends with it: see RestoresBest.
struct BestModel {
  std::int64_t step = -1;            // RunState::best's; -1: there is none yet
  std::vector<NamedTensor> tensors;  // as those of CopyModel
};

// The names and shapes of such tensors, in the same order: of this process, and of all stages.
struct TensorName {
  std::string name;
  Shape shape;
};
struct StateNames {
  std::vector<TensorName> model, optimizer, best = {};
};
StateNames OwnNames(Session& session);
StateNames WholeNames(Session& session);
// Overwrites the tensors of this process that `tensors` has. Requires: the shapes are right.
void TakeTensors(const std::vector<NamedTensor>& tensors, Session& session);

// `now` becomes Snapshot::saved. `tensors`: those of all stages.
Snapshot MakeSnapshot(Session& session, const RunState& state, Time now, StateTensors tensors);
Snapshot MakeSnapshot(Session& session, const RunState& state, Time now);  // of one stage

// SnapshotBytes: the bytes of all tensors of a snapshot. ModelBytes: those of the model's tensors
// alone. Of all stages.
std::size_t SnapshotBytes(Session& session);
std::size_t ModelBytes(Session& session);
// Returns the most bytes that are held while a checkpoint is read: its tensors, and the file that
// they are copied from. `model`: the bytes of the model's tensors. `read`: the bytes of all tensors
// that are read.
std::size_t BytesWhileRead(std::size_t model, std::size_t read);

// Returns the number of training samples of the run that saved `state` (Snapshot::state); nullopt
// if it does not say.
std::optional<std::int64_t> TrainingExamples(const nlohmann::json& state);

// Restores model, optimizer and `state`; of a stage, its own tensors. Drops the last evaluation
// and the best one if they were of another test set or loss. If the number of training samples
// differs, moves `state` to the beginning of the next epoch (unless it is at one) and logs a
// warning, because the position within an epoch says which samples were used only for the samples
// that the epoch began with. If only their digest differs, just logs a warning. FailedPrecondition
// (names both sides): the snapshot was saved with another number of steps per epoch, global batch,
// seed, shuffle or optimizer, or with another number of samples in the middle of the last epoch; or
// it lacks a tensor, or has it with another shape or type. DataLoss: its run state is malformed or
// of another step. On failure, `session` and `state` are unchanged.
absl::Status RestoreSnapshot(const Snapshot& snapshot, Session& session, RunState& state);

// Restores only what evaluation needs: parameters and running statistics. The snapshot may lack the
// optimizer's tensors, and its position in an epoch does not matter. FailedPrecondition: another
// setting or a tensor does not match, as for RestoreSnapshot. The run state is not read, so there
// is no DataLoss.
absl::Status RestoreModel(const Snapshot& snapshot, Session& session);

struct TakenWeights {
  std::vector<std::string> taken;   // names of the model's tensors
  int excluded = 0;                 // of the model's tensors
  std::vector<std::string> unused;  // names of given tensors that the model does not have
};
// Replaces the model's tensors by the given ones of the same name, except those whose name contains
// a text of `exclude`. FailedPrecondition: a tensor is missing or has another shape or type (names
// both sides). DataLoss: one has a value that is not finite. InvalidArgument: a text is in no name.
// On failure, `session` is unchanged. Names are those of all stages, of which this process takes
// its own tensors.
absl::StatusOr<TakenWeights> TakeWeights(const std::vector<NamedTensor>& tensors,
                                         const std::vector<std::string>& exclude, Session& session);

}  // namespace lockstep::train
