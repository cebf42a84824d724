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

// Each process has its own, so that two that write one file do not mix their bytes.
std::string DraftOf(const std::string& path) {
  return fmt::format("{}.{}.tmp", path, ::getpid());
}

absl::Status ReplaceFile(FileSystem& files, const std::string& path, const Pieces& pieces) {
  const std::string draft = DraftOf(path);
  absl::Status written = files.WriteFile(draft, pieces);
  if (written.ok()) written = files.Rename(draft, path);
  if (!written.ok()) {
    files.RemoveRecursively(draft).IgnoreError();  // the first failure is what people need
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

absl::Status PrepareModelFile(const std::string& path, FileSystem& files) {
  LOCKSTEP_RETURN_IF_ERROR(files.CreateDirectories(std::filesystem::path(path).parent_path()));
  if (files.ListDirectory(path).ok()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: found a folder, expected a file or nothing", path));
  }
  const std::string draft = DraftOf(path);
  const absl::Status written = files.WriteFile(draft, {});
  const absl::Status removed = files.RemoveRecursively(draft);
  return written.ok() ? removed : written;
}

absl::Status WriteModelFile(const TrainedModel& model, const std::string& path, FileSystem& files) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelFormat format, ModelFormatOf(path));
  return format == ModelFormat::kOnnx ? WriteOnnx(model, path, files)
                                      : WriteSafetensors(model, path, files);
}

}  // namespace lockstep::train
