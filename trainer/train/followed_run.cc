#include "trainer/train/followed_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/status.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/nn/model_description.h"
#include "trainer/train/loss_kind.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

std::optional<FollowedRun> RunOf(const nlohmann::json& state) {
  const std::optional<std::int64_t> examples = TrainingExamples(state);
  const auto model = DescriptionFromJson(state.value("model", nlohmann::json::object()));
  if (!examples || !model.ok()) return std::nullopt;
  return FollowedRun{.examples = *examples,
                     .input = model->input,
                     .element = model->element,
                     .outputs = model->outputs};
}

}  // namespace

absl::StatusOr<std::optional<FollowedRun>> FindFollowedRun(FileSystem& files,
                                                           const std::string& directory) {
  absl::StatusOr<std::vector<api::CheckpointName>> folders = ListFolders(files, directory);
  if (absl::IsNotFound(folders.status())) return std::optional<FollowedRun>();  // not made yet
  LOCKSTEP_RETURN_IF_ERROR(folders.status());
  std::ranges::sort(*folders, std::greater<>());
  for (const api::CheckpointName& name : *folders) {
    const absl::StatusOr<Manifest> manifest =
        ReadManifest(files, directory + "/" + name.ToString());
    if (manifest.ok()) {
      if (const std::optional<FollowedRun> run = RunOf(manifest->state)) return run;
      continue;  // of a version that did not describe its model
    }
    // Incomplete, removed since it was listed, or damaged.
    if (absl::IsNotFound(manifest.status()) || absl::IsDataLoss(manifest.status())) continue;
    return manifest.status();
  }
  return std::optional<FollowedRun>();
}

absl::Status CheckTestData(const FollowedRun& run, api::LossType loss, const std::string& path,
                           const Dataset& test) {
  const DType element = run.element.value_or(test.element());
  if (test.sample_shape() != run.input || test.element() != element) {
    return absl::DataLossError(fmt::format(
        "{}: test samples are {} {}, expected {} {} as the run's", path, DTypeName(test.element()),
        test.sample_shape().ToString(), DTypeName(element), run.input.ToString()));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::int64_t outputs, CountOutputs(loss, test));
  // Test samples may lack the last classes.
  const bool fits = ReadsTargets(loss) ? outputs == run.outputs : outputs <= run.outputs;
  if (fits) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "{}: test samples need {} outputs of the model, which has {} for the run{}", path, outputs,
      run.outputs, ReadsTargets(loss) ? "" : "; " + PlaceBeyond(run.outputs, test)));
}

}  // namespace lockstep::train
