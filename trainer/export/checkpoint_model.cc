#include "trainer/export/checkpoint_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "trainer/checkpoint/average_tensors.h"
#include "trainer/checkpoint/checkpoint_folder.h"

namespace lockstep::train {
namespace {

// Enough for a directory in which a checkpoint is removed each time it is about to be read.
constexpr int kMostListings = 20;

// The step of the model, which may be that of an earlier step.
std::int64_t StepOfModel(const Manifest& manifest) {
  const nlohmann::json::json_pointer best("/run/best/step");
  if (!HasTrainingFile(manifest) || !manifest.state.contains(best)) return manifest.step;
  const nlohmann::json& step = manifest.state.at(best);
  return step.is_number_integer() ? step.get<std::int64_t>() : manifest.step;
}

absl::StatusOr<TrainedModel> LoadFrom(FileSystem& files, const std::string& folder) {
  TrainedModel result{.origin = folder};
  LOCKSTEP_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(files, folder));
  if (!manifest.state.is_object() || !manifest.state.contains("model")) {
    return absl::FailedPreconditionError(
        fmt::format("{}/{}: found no state.model, expected the model's layers: an earlier version "
                    "of this program has saved the checkpoint. Resume the job to save another",
                    folder, api::kManifestName));
  }
  const absl::StatusOr<ModelDescription> model = DescriptionFromJson(manifest.state["model"]);
  if (!model.ok()) {
    return absl::DataLossError(fmt::format("{}/{}: state.{}", folder, api::kManifestName,
                                           std::string(model.status().message())));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      Snapshot snapshot, LoadSnapshot(files, folder, manifest.model_hash, CheckpointParts::kModel));
  result.step = StepOfModel(manifest);
  result.model = *model;
  result.tensors = WithAverages(std::move(snapshot.model));
  return result;
}

// What earlier looks at a directory have found.
struct Looks {
  int left = kMostListings;            // this one included
  std::set<api::CheckpointName> gone;  // a link that leads nowhere is listed again and again
};

// As CheckpointStore::LoadLatest, but the job that owns the directory may still run. Nullopt: it
// has removed a checkpoint before that was read, or was about to save one, so that there may be a
// newer one.
absl::StatusOr<std::optional<TrainedModel>> LoadNewest(FileSystem& files,
                                                       const std::string& directory, Looks& looks) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<api::CheckpointName> folders,
                            ListFolders(files, directory));
  std::ranges::sort(folders, std::greater());
  std::vector<std::string> damages;
  absl::StatusCode code = absl::StatusCode::kDataLoss;
  bool is_saving = false;
  for (const api::CheckpointName& name : folders) {
    const std::string folder = directory + "/" + name.ToString();
    const absl::StatusOr<bool> committed = IsCommitted(files, folder);
    if (committed.ok() && !*committed) {
      is_saving = true;
      continue;
    }
    absl::StatusOr<TrainedModel> model =
        committed.ok() ? LoadFrom(files, folder) : committed.status();
    if (model.ok()) return *std::move(model);
    if (absl::IsFailedPrecondition(model.status())) return model.status();
    if (IsGone(files, folder)) {
      if (looks.gone.insert(name).second) return std::optional<TrainedModel>();
      continue;
    }
    damages.emplace_back(model.status().message());
    if (!absl::IsDataLoss(model.status())) code = absl::StatusCode::kUnavailable;
    LogWarning("a damaged checkpoint is passed over",
               {{"checkpoint", folder}, {"damage", damages.back()}});
  }
  if (damages.empty()) {
    if (is_saving && looks.left > 1) return std::optional<TrainedModel>();
    return absl::NotFoundError(fmt::format(
        "{}: found no checkpoint, expected a folder with {} or a directory of such folders",
        directory, api::kManifestName));
  }
  return absl::Status(
      code, fmt::format("{}: no checkpoint can be read: {}", directory, fmt::join(damages, "; ")));
}

}  // namespace

absl::StatusOr<TrainedModel> LoadCheckpointModel(FileSystem& files, const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool is_checkpoint, IsCommitted(files, path));
  if (is_checkpoint) return LoadFrom(files, path);
  for (Looks looks; looks.left > 0; --looks.left) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::optional<TrainedModel> model, LoadNewest(files, path, looks));
    if (model) return *std::move(model);
  }
  return absl::UnavailableError(fmt::format(
      "{}: a running job has removed each checkpoint before it was read: raise checkpoint.keep",
      path));
}

}  // namespace lockstep::train
