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

// Equal for models whose tensors have the same names and shapes, whatever their memory layout.
std::string ModelHash(Session& session);

// Returns copies of the model's tensors: parameters and running statistics.
std::vector<NamedTensor> CopyModel(Session& session);

// `now` becomes Snapshot::saved.
Snapshot MakeSnapshot(Session& session, const RunState& state, Time now);

// The bytes of the tensors of a snapshot, and of those that are the model's.
std::size_t SnapshotBytes(Session& session);
std::size_t ModelBytes(Session& session);
// Returns what a checkpoint takes while it is read, at most: its tensors, and the file that they
// are taken from. `model`: the bytes of the model's tensors; `read`: of all that are read.
std::size_t BytesWhileRead(std::size_t model, std::size_t read);

// Returns how many training samples the run had that saved a checkpoint of this state
// (Snapshot::state). Nullopt: it does not say.
std::optional<std::int64_t> TrainingExamples(const nlohmann::json& state);

// An evaluation of another test set or by another loss counts as none. With another number of
// training samples, `state` is at the next epoch's beginning, and a warning says so: which samples
// an epoch has used is known only of those that it began with. If the samples differ but not their
// number, there is only the warning. FailedPrecondition: the snapshot was saved with another number
// of steps in an epoch, batch, seed, shuffle or optimizer, or with other samples in the last epoch,
// or lacks a tensor or has another shape for it (names both sides). DataLoss: its run state is
// malformed or of another step. On failure, `session` and `state` are unchanged.
absl::Status RestoreSnapshot(const Snapshot& snapshot, Session& session, RunState& state);

// Restores only what evaluation needs: parameters and running statistics. The snapshot may lack the
// optimizer's tensors, and be of any epoch of other samples. Errors as above.
absl::Status RestoreModel(const Snapshot& snapshot, Session& session);

struct TakenWeights {
  int taken = 0, excluded = 0;      // of the model's tensors
  std::vector<std::string> unused;  // names of given tensors that the model does not have
};
// Replaces the model's tensors by the given ones of the same name, except those whose name contains
// a text of `exclude`. FailedPrecondition: a tensor is missing or has another shape or type (names
// both sides). DataLoss: one has a value that is not finite. InvalidArgument: a text is in no name.
// On failure, `session` is unchanged.
absl::StatusOr<TakenWeights> TakeWeights(const std::vector<NamedTensor>& tensors,
                                         const std::vector<std::string>& exclude, Session& session);

}  // namespace lockstep::train
