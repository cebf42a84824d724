// The model in a checkpoint, without the job that trained it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/export/model_file.h"

namespace lockstep::train {

// Reads the checkpoint in the folder `path`, or the newest one of the checkpoint directory `path`
// that can be read, whose job may still run: skips one that is damaged or cannot be read, with a
// warning. With averages of the parameters, the model has those in their place. Changes nothing on
// the disk. Its origin is the checkpoint's folder. NotFound: there is
// no checkpoint. DataLoss: it is damaged, or all are; names the file. FailedPrecondition: a newer
// format, or it does not say which layers its model has, as those of earlier versions of this
// program. Unavailable: none can be read now. Other errors: see FileSystem.
absl::StatusOr<TrainedModel> LoadCheckpointModel(FileSystem& files, const std::string& path);

}  // namespace lockstep::train
