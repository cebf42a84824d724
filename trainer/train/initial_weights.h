// What a model starts from instead of random values.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/store.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// Takes the model's tensors from the safetensors file `weights.path`: parameters and running
// statistics, by the names that checkpoints use. Logs what was taken, and warns of tensors that the
// model does not have. Returns the tensors of all stages that the file had for them. Does nothing
// without a path. NotFound, DataLoss: the file cannot be used,
// has more bytes than eight times the model plus 1 GiB, or a value that is not finite.
// InvalidArgument, FailedPrecondition: it does not fit the model; names the tensor, or the text of
// `exclude`. Other errors: the file cannot be read. On failure, `session` is unchanged.
absl::StatusOr<std::vector<NamedTensor>> LoadInitialWeights(const api::InitialWeightsSpec& weights,
                                                            FileSystem& files, Session& session);

}  // namespace lockstep::train
