// The model in a checkpoint, without the job that trained it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/nn/model_description.h"

namespace lockstep::train {

struct CheckpointModel {
  std::string folder;  // of the checkpoint
  std::int64_t step = 0;
  ModelDescription model;
  std::vector<NamedTensor> tensors;  // parameters and running statistics
};

// Reads the checkpoint in the folder `path`, or the newest complete one of the checkpoint directory
// `path`; changes nothing on the disk. NotFound: there is no checkpoint. DataLoss: it is damaged;
// names the file. FailedPrecondition: a newer format, or it does not say which layers its model
// has, as those of earlier versions of this program. Other errors: see FileSystem.
absl::StatusOr<CheckpointModel> LoadCheckpointModel(FileSystem& files, const std::string& path);

}  // namespace lockstep::train
