#include "trainer/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/core/crc32c.h"

namespace lockstep::train {
namespace {

absl::StatusOr<std::vector<NamedTensor>> LoadTensors(FileSystem& files, const std::string& folder,
                                                     const Manifest& manifest,
                                                     const std::string& name) {
  const std::string path = folder + "/" + name;
  const auto file = std::ranges::find(manifest.files, name, &ManifestFile::name);
  if (file == manifest.files.end()) {
    return absl::DataLossError(fmt::format("{}: the manifest does not list it", path));
  }
  const absl::StatusOr<std::string> bytes = files.ReadFile(path, file->bytes);
  if (absl::IsNotFound(bytes.status())) {
    return absl::DataLossError(std::string(bytes.status().message()));
  }
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() != file->bytes) {
    return absl::DataLossError(
        fmt::format("{}: found {} bytes, expected {}", path, bytes->size(), file->bytes));
  }
  if (const std::uint32_t found = Crc32c(*bytes); found != file->crc32c) {
    return absl::DataLossError(
        fmt::format("{}: CRC-32C is {:08x}, expected {:08x}", path, found, file->crc32c));
  }
  return ParseSafetensors(*bytes, path);
}

}  // namespace

absl::StatusOr<std::vector<api::CheckpointName>> ListFolders(FileSystem& files,
                                                             const std::string& directory) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.ListDirectory(directory));
  std::vector<api::CheckpointName> folders;
  for (const std::string& name : names) {
    if (const auto parsed = api::CheckpointName::Parse(name)) folders.push_back(*parsed);
  }
  return folders;
}

absl::StatusOr<bool> IsCommitted(FileSystem& files, const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> content = files.ListDirectory(folder);
  if (absl::IsFailedPrecondition(content.status())) {
    return absl::DataLossError(content.status().message());
  }
  LOCKSTEP_RETURN_IF_ERROR(content.status());
  return std::ranges::find(*content, api::kManifestName) != content->end();
}

bool IsGone(FileSystem& files, const std::string& folder) {
  const absl::StatusOr<bool> committed = IsCommitted(files, folder);
  return committed.ok() ? !*committed : absl::IsNotFound(committed.status());
}

absl::StatusOr<Manifest> ReadManifest(FileSystem& files, const std::string& folder) {
  const std::string path = folder + "/" + api::kManifestName;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, files.ReadFile(path, kMostJsonBytes));
  return DecodeManifest(text, path);
}

absl::StatusOr<Snapshot> LoadSnapshot(FileSystem& files, const std::string& folder,
                                      const std::string& model_hash, CheckpointParts parts) {
  LOCKSTEP_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(files, folder));
  if (manifest.model_hash != model_hash) {
    return absl::FailedPreconditionError(
        fmt::format("{}: it is a checkpoint of another model: modelHash is {}, expected {}",
                    folder + "/" + api::kManifestName, manifest.model_hash, model_hash));
  }
  Snapshot snapshot{manifest.step, std::move(manifest.state), {}, {}, model_hash, manifest.saved};
  LOCKSTEP_ASSIGN_OR_RETURN(snapshot.model, LoadTensors(files, folder, manifest, kModelName));
  if (parts == CheckpointParts::kModel) return snapshot;
  LOCKSTEP_ASSIGN_OR_RETURN(snapshot.optimizer,
                            LoadTensors(files, folder, manifest, kOptimizerName));
  if (!HasTrainingFile(manifest)) return snapshot;
  snapshot.best = std::move(snapshot.model);
  LOCKSTEP_ASSIGN_OR_RETURN(snapshot.model, LoadTensors(files, folder, manifest, kTrainingName));
  return snapshot;
}

}  // namespace lockstep::train
