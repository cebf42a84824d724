// The tensors of a run's state: their names, copies of them for a checkpoint or an export, and
// their restoration. The average of the parameters is an optimizer's slot in memory, and saved
// beside the parameters, so that who only evaluates or exports reads one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/core/shape.h"
#include "trainer/train/session.h"

namespace lockstep::train {

using TensorsByName = std::map<std::string, const NamedTensor*>;
TensorsByName ByName(const std::vector<NamedTensor>& tensors);

// Returns a hash of the names and shapes of the model's parameters and running statistics. It does
// not depend on their memory layout, nor on whether parameters are averaged.
std::string ModelHash(Session& session);

// What a checkpoint holds of a run besides its position. `best`: the model of the best evaluation;
// empty: it is `model`, or the run does not keep it.
struct StateTensors {
  std::vector<NamedTensor> model, optimizer, best = {};
};
// Returns copies of the model's tensors (parameters, running statistics, and the parameters'
// averages if there are any) and the optimizer's; of a stage, its own. The average may be in place.
// Requires: the optimizer's state is not sharded.
StateTensors CopyTensors(Session& session);
// Returns copies of what is exported: parameters, or their averages, and running statistics.
// Requires: there are no averages of which this rank has but a share.
std::vector<NamedTensor> CopyModel(Session& session);
// The same with these values in the place of the model's parameters, all of them.
std::vector<NamedTensor> CopyModelWith(std::span<float> parameters, Session& session);
// Returns the last of these: copies of the running statistics.
std::vector<NamedTensor> CopyStates(Session& session);

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
// Whether these tensors of a checkpoint's model.safetensors include averages.
bool HasAverages(const std::vector<NamedTensor>& model);

// FailedPrecondition (names both sides): a run needs a tensor of its checkpoint that is missing or
// has another shape or type. Averages may be missing, but not some of them. `model`, `optimizer`:
// what the files of these names have, of all stages.
absl::Status ExpectTensors(const std::vector<NamedTensor>& model,
                           const std::vector<NamedTensor>& optimizer, Session& session);
// Overwrites the tensors of this process that are given. If no averages are, they begin at the
// parameters. With a sharded state, overwrites the model's parameters and running statistics alone:
// see share_tensors.h. Requires: the shapes are right.
void TakeTensors(const std::vector<NamedTensor>& model, const std::vector<NamedTensor>& optimizer,
                 Session& session);
// Overwrites the model's parameters and running statistics by what is evaluated: of a run that
// averages its parameters the averages, if they are given. FailedPrecondition: as ExpectTensors.
absl::Status TakeModel(const std::vector<NamedTensor>& model, Session& session);

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

// SnapshotBytes: the bytes of all tensors of a snapshot. ModelFileBytes: those in its
// model.safetensors. ModelBytes: those that are exported. Of all stages.
std::size_t SnapshotBytes(Session& session);
std::size_t ModelFileBytes(Session& session);
std::size_t ModelBytes(Session& session);
// Returns the most bytes that are held while a checkpoint is read: its tensors, and the file that
// they are copied from. `model`: ModelFileBytes. `read`: the bytes of all tensors that are read.
std::size_t BytesWhileRead(std::size_t model, std::size_t read);

}  // namespace lockstep::train
