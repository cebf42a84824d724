// A trained model as one file that other programs read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/identity/identity.h"
#include "trainer/nn/model_description.h"

namespace lockstep::train {

struct TrainedModel {
  std::string origin;  // for messages: a checkpoint's folder, say
  std::int64_t step = 0;
  ModelDescription model;
  std::vector<NamedTensor> tensors;  // parameters and running statistics
};

enum class ModelFormat { kOnnx, kSafetensors };

// InvalidArgument: the path does not end in ".onnx" or ".safetensors".
absl::StatusOr<ModelFormat> ModelFormatOf(const std::string& path);

// A process that writes a file writes a draft first, in the same folder. Each process has its own,
// so that two that write one file, in different pods or jobs perhaps, do not mix their bytes.
struct ModelWriter {
  std::string job_uid;  // empty: a process without a job
  Incarnation process;
};

// Makes the folder of the file, and writes and removes an empty draft of `writer` there, so that
// people learn early that WriteModelFile could not write. Removes the drafts that earlier processes
// of its job have left, if it may list the folder; else logs that they stay. Leaves the file as it
// is. `path` is absolute. FailedPrecondition: the path is a folder, or a link to one, or cannot be
// a file's. Other errors: see FileSystem.
absl::Status PrepareModelFile(const std::string& path, const ModelWriter& writer,
                              FileSystem& files);

// Writes the file, or replaces it, in one step: on failure, it is as it was, unless its new name
// may not survive a loss of power. InvalidArgument: the model's layers and tensors do not fit each
// other. Other errors: see ModelFormatOf, EncodeOnnx and FileSystem.
absl::Status WriteModelFile(const TrainedModel& model, const std::string& path,
                            const ModelWriter& writer, FileSystem& files);

}  // namespace lockstep::train
