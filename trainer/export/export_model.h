// Copies the model of a checkpoint into one file that other programs read.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/file_system.h"

namespace lockstep::train {

struct ModelExport {
  std::string checkpoint;  // a checkpoint's folder, or a checkpoint directory: its newest one
  std::string file;        // ends in ".onnx" or ".safetensors", which is its format
};

// Writes the file, or replaces it, in one step: on failure, it is as it was, unless its new name
// may not survive a loss of power. Returns a line that says what was written. InvalidArgument: the
// file's ending is another one, or the checkpoint's layers and tensors do not fit each other. Other
// errors: see LoadCheckpointModel, EncodeOnnx and FileSystem.
absl::StatusOr<std::string> ExportModel(const ModelExport& request, FileSystem& files);

}  // namespace lockstep::train
