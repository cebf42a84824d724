#include "trainer/export/model_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <span>

#include "base/digest.h"
#include "base/log.h"
#include "base/status.h"
#include "trainer/export/onnx_model.h"

namespace lockstep::train {
namespace {

using Pieces = std::vector<std::span<const std::byte>>;

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

// What the names of a job's drafts of a file begin with. They are short however long its name is.
std::string DraftsOf(const std::string& path, const std::string& job_uid) {
  const std::string name = std::filesystem::path(path).filename();
  return fmt::format(".export-{:016x}-", Digest(fmt::format("{}/{}", job_uid, name)));
}

// The names of a job's drafts of a file are in the order of their writers.
std::string DraftName(const std::string& path, const ModelWriter& writer) {
  return fmt::format("{}{:019}-{:019}.tmp", DraftsOf(path, writer.job_uid),
                     writer.process.pod_started, writer.process.process_number);
}

// `status`, with the name of the file that could not be written, and not only of its draft.
absl::Status Naming(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), fmt::format("{}: {}", path, std::string(status.message()))};
}

absl::Status ReplaceFile(FileSystem& files, const std::string& path, const ModelWriter& writer,
                         const Pieces& pieces) {
  const std::string folder = FolderOf(path);
  const std::string draft = fmt::format("{}/{}", folder, DraftName(path, writer));
  absl::Status written = files.WriteFile(draft, pieces);
  if (written.ok()) written = files.Rename(draft, path);
  if (!written.ok()) {
    files.RemoveRecursively(draft).IgnoreError();  // the first failure is what people need
    return Naming(path, written);
  }
  return files.SyncDirectory(folder);
}

// What stays only costs disk space. A draft of another job, or of a process without a job, may be
// one that is being written.
void RemoveOlderDrafts(FileSystem& files, const std::string& path, const ModelWriter& writer) {
  if (writer.job_uid.empty()) return;
  const auto warn = [](const absl::Status& failed) {
    LogWarning("what an earlier process has left of an export stays",
               {{"error", std::string(failed.message())}});
  };
  const std::string folder = FolderOf(path);
  const absl::StatusOr<std::vector<std::string>> names = files.ListDirectory(folder);
  if (!names.ok()) return warn(names.status());
  const std::string drafts = DraftsOf(path, writer.job_uid), own = DraftName(path, writer);
  for (const std::string& name : *names) {
    if (!name.starts_with(drafts) || name >= own) continue;
    const absl::Status removed = files.RemoveRecursively(fmt::format("{}/{}", folder, name));
    if (!removed.ok()) warn(removed);
  }
}

absl::Status WriteOnnx(const TrainedModel& model, const std::string& path,
                       const ModelWriter& writer, FileSystem& files) {
  const std::string doc = fmt::format(
      "Step {} of a training. Input: samples as the model got them, bytes divided by 255 and then "
      "normalized if the job's dataset.normalize says so.",
      model.step);
  const absl::StatusOr<std::string> encoded = EncodeOnnx(model.model, model.tensors, doc);
  if (!encoded.ok()) {
    return {encoded.status().code(),
            fmt::format("{}: {}", model.origin, std::string(encoded.status().message()))};
  }
  return ReplaceFile(files, path, writer, {std::as_bytes(std::span(*encoded))});
}

absl::Status WriteSafetensors(const TrainedModel& model, const std::string& path,
                              const ModelWriter& writer, FileSystem& files) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(model.tensors));
  return ReplaceFile(files, path, writer, SafetensorsPieces(header, model.tensors));
}

}  // namespace

absl::StatusOr<ModelFormat> ModelFormatOf(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".onnx") return ModelFormat::kOnnx;
  if (ending == ".safetensors") return ModelFormat::kSafetensors;
  return absl::InvalidArgumentError(
      fmt::format("{}: found the ending '{}', expected .onnx or .safetensors", path, ending));
}

absl::Status PrepareModelFile(const std::string& path, const ModelWriter& writer,
                              FileSystem& files) {
  const std::string folder = FolderOf(path);
  LOCKSTEP_RETURN_IF_ERROR(files.CreateDirectories(folder));
  LOCKSTEP_ASSIGN_OR_RETURN(const FileSystem::Kind kind, files.KindOf(path));
  if (kind == FileSystem::Kind::kFolder) {
    return absl::FailedPreconditionError(
        fmt::format("{}: found a folder, expected a file or nothing", path));
  }
  RemoveOlderDrafts(files, path, writer);
  const std::string draft = fmt::format("{}/{}", folder, DraftName(path, writer));
  const absl::Status written = files.WriteFile(draft, {});
  const absl::Status removed = files.RemoveRecursively(draft);
  return Naming(path, written.ok() ? removed : written);
}

absl::Status WriteModelFile(const TrainedModel& model, const std::string& path,
                            const ModelWriter& writer, FileSystem& files) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelFormat format, ModelFormatOf(path));
  return format == ModelFormat::kOnnx ? WriteOnnx(model, path, writer, files)
                                      : WriteSafetensors(model, path, writer, files);
}

}  // namespace lockstep::train
