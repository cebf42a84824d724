// The file that a training writes its model to at its end: training.checkpoint.exportTo.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/export/model_file.h"

namespace lockstep::train {

// Makes the file's folder and tries to write there, so that a file that cannot be written ends a
// run before its first step and not after its last. Does nothing without a `file`. `writer`: this
// process. InvalidArgument: the file's ending is another one than ".onnx" or ".safetensors", or an
// ONNX file cannot hold `model_bytes` of tensors. Other errors: see PrepareModelFile.
absl::Status PrepareExport(const std::string& file, std::size_t model_bytes,
                           const ModelWriter& writer, FileSystem& files);

// Writes the model, whose origin is the run, and logs that. Does nothing without a `file`. Errors:
// see WriteModelFile.
absl::Status ExportAtEnd(const std::string& file, TrainedModel model, const ModelWriter& writer,
                         FileSystem& files);

}  // namespace lockstep::train
