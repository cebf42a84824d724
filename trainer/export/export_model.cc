#include "trainer/export/export_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/export/checkpoint_model.h"
#include "trainer/export/onnx_model.h"

namespace lockstep::train {
namespace {

using Pieces = std::vector<std::span<const std::byte>>;

absl::Status ReplaceFile(FileSystem& files, const std::string& path, const Pieces& pieces) {
  const std::string unfinished = fmt::format("{}.{}.tmp", path, ::getpid());
  absl::Status written = files.WriteFile(unfinished, pieces);
  if (written.ok()) written = files.Rename(unfinished, path);
  if (!written.ok()) {
    files.RemoveRecursively(unfinished).IgnoreError();  // the first failure is what people need
    return written;
  }
  const std::string parent = std::filesystem::path(path).parent_path();
  return files.SyncDirectory(parent.empty() ? "." : parent);
}

absl::Status WriteOnnx(const CheckpointModel& checkpoint, const std::string& path,
                       FileSystem& files) {
  const std::string doc = fmt::format(
      "Step {} of a training. Input: samples as the model got them, bytes divided by 255.",
      checkpoint.step);
  const absl::StatusOr<std::string> encoded = EncodeOnnx(checkpoint.model, checkpoint.tensors, doc);
  if (!encoded.ok()) {
    return {encoded.status().code(),
            fmt::format("{}: {}", checkpoint.folder, std::string(encoded.status().message()))};
  }
  return ReplaceFile(files, path, {std::as_bytes(std::span(*encoded))});
}

absl::Status WriteSafetensors(const CheckpointModel& checkpoint, const std::string& path,
                              FileSystem& files) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(checkpoint.tensors));
  return ReplaceFile(files, path, SafetensorsPieces(header, checkpoint.tensors));
}

}  // namespace

absl::StatusOr<std::string> ExportModel(const ModelExport& request, FileSystem& files) {
  const std::string ending = std::filesystem::path(request.file).extension();
  const bool is_onnx = ending == ".onnx";
  if (!is_onnx && ending != ".safetensors") {
    return absl::InvalidArgumentError(fmt::format(
        "{}: found the ending '{}', expected .onnx or .safetensors", request.file, ending));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const CheckpointModel checkpoint,
                            LoadCheckpointModel(files, request.checkpoint));
  LOCKSTEP_RETURN_IF_ERROR(is_onnx ? WriteOnnx(checkpoint, request.file, files)
                                   : WriteSafetensors(checkpoint, request.file, files));
  return fmt::format("{}: {} tensors of {}, step {}", request.file, checkpoint.tensors.size(),
                     checkpoint.folder, checkpoint.step);
}

}  // namespace lockstep::train
