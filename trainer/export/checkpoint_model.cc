#include "trainer/export/checkpoint_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "trainer/checkpoint/checkpoint_folder.h"

namespace lockstep::train {
namespace {

absl::StatusOr<std::string> FindFolder(FileSystem& files, const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool is_checkpoint, IsCommitted(files, path));
  if (is_checkpoint) return path;
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<FolderName> folders, ListFolders(files, path));
  std::ranges::sort(folders, std::greater());
  for (const FolderName& folder : folders) {
    std::string candidate = path + "/" + folder.ToString();
    LOCKSTEP_ASSIGN_OR_RETURN(const bool is_complete, IsCommitted(files, candidate));
    if (is_complete) return candidate;
  }
  return absl::NotFoundError(fmt::format(
      "{}: found no checkpoint, expected a folder with {} or a directory of such folders", path,
      kManifestName));
}

}  // namespace

absl::StatusOr<TrainedModel> LoadCheckpointModel(FileSystem& files, const std::string& path) {
  TrainedModel result;
  LOCKSTEP_ASSIGN_OR_RETURN(result.origin, FindFolder(files, path));
  LOCKSTEP_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(files, result.origin));
  if (!manifest.state.is_object() || !manifest.state.contains("model")) {
    return absl::FailedPreconditionError(
        fmt::format("{}/{}: found no state.model, expected the model's layers: an earlier version "
                    "of this program has saved the checkpoint. Resume the job to save another",
                    result.origin, kManifestName));
  }
  const absl::StatusOr<ModelDescription> model = DescriptionFromJson(manifest.state["model"]);
  if (!model.ok()) {
    return absl::DataLossError(fmt::format("{}/{}: state.{}", result.origin, kManifestName,
                                           std::string(model.status().message())));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      Snapshot snapshot,
      LoadSnapshot(files, result.origin, manifest.model_hash, CheckpointParts::kModel));
  result.step = snapshot.step;
  result.model = *model;
  result.tensors = std::move(snapshot.model);
  return result;
}

}  // namespace lockstep::train
