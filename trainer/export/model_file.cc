#include "trainer/export/model_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <span>

#include "base/status.h"
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

absl::Status WriteOnnx(const TrainedModel& model, const std::string& path, FileSystem& files) {
  const std::string doc = fmt::format(
      "Step {} of a training. Input: samples as the model got them, bytes divided by 255.",
      model.step);
  const absl::StatusOr<std::string> encoded = EncodeOnnx(model.model, model.tensors, doc);
  if (!encoded.ok()) {
    return {encoded.status().code(),
            fmt::format("{}: {}", model.origin, std::string(encoded.status().message()))};
  }
  return ReplaceFile(files, path, {std::as_bytes(std::span(*encoded))});
}

absl::Status WriteSafetensors(const TrainedModel& model, const std::string& path,
                              FileSystem& files) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(model.tensors));
  return ReplaceFile(files, path, SafetensorsPieces(header, model.tensors));
}

}  // namespace

absl::StatusOr<ModelFormat> ModelFormatOf(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".onnx") return ModelFormat::kOnnx;
  if (ending == ".safetensors") return ModelFormat::kSafetensors;
  return absl::InvalidArgumentError(
      fmt::format("{}: found the ending '{}', expected .onnx or .safetensors", path, ending));
}

absl::Status WriteModelFile(const TrainedModel& model, const std::string& path, FileSystem& files) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelFormat format, ModelFormatOf(path));
  return format == ModelFormat::kOnnx ? WriteOnnx(model, path, files)
                                      : WriteSafetensors(model, path, files);
}

}  // namespace lockstep::train
