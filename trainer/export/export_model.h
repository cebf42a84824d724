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

// Returns a line that says what was written. Errors: see LoadCheckpointModel and WriteModelFile.
absl::StatusOr<std::string> ExportModel(const ModelExport& request, FileSystem& files);

}  // namespace lockstep::train
