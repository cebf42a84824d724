#include "trainer/train/evaluator/best_checkpoint.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/v1/test_metrics.h"
#include "base/log.h"
#include "base/status.h"
#include "trainer/train/run_state.h"

namespace lockstep::train {
namespace {

constexpr char kResultKey[] = "evaluation";
constexpr char kJobKey[] = "jobUid";
constexpr char kTestSetKey[] = "testSet";
constexpr char kLossKey[] = "lossFunction";
constexpr char kMetricsKey[] = "testMetrics";

const char* MetricKey(api::LossType loss) {
  return api::IsCrossentropy(loss) ? "testAccuracy" : "testMeanAbsoluteError";
}

// `written`: as in the state of a copy. JSON has no NaN.
double NumberOrNanOf(const nlohmann::json& written, const char* key) {
  const auto found = written.find(key);
  return found != written.end() && found->is_number() ? found->get<double>() : std::nan("");
}

// Returns none if they are damaged.
api::TestMetrics NamedOf(const nlohmann::json& written, const api::EvaluationSpec& by) {
  const auto found = written.find(kMetricsKey);
  if (found == written.end()) return {};
  try {
    return KeptMetrics::FromJson(*found).Of(by);
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

}  // namespace

// The greater, the better.
double BestCheckpoint::Goodness(const EvaluationResult& result) const {
  const double found = api::NumberOf(options_.by, result.loss, result.metric, result.metrics);
  const double value = api::IsBetterHigher(options_.by) ? found : -found;
  return std::isfinite(value) ? value : -std::numeric_limits<double>::infinity();
}

// Returns nullopt if the copy is incomplete, damaged, or of another job, model, test set or loss.
absl::StatusOr<std::optional<double>> BestCheckpoint::GoodnessOfCopy(
    const api::CheckpointName& name) const {
  const std::string folder = options_.directory + "/" + name.ToString();
  const std::optional<double> none;
  LOCKSTEP_ASSIGN_OR_RETURN(const bool committed, IsCommitted(files_, folder));
  if (!committed) return none;
  absl::StatusOr<Manifest> manifest = ReadManifest(files_, folder);
  if (absl::IsDataLoss(manifest.status())) return none;
  LOCKSTEP_RETURN_IF_ERROR(manifest.status());
  const nlohmann::json result = manifest->state.value(kResultKey, nlohmann::json::object());
  // Copies of earlier versions do not name their job, their test set and their loss.
  const bool was_ours = was_ours_.value_or(false);
  const auto is_ours = [&](const char* key, const std::string& own) {
    const auto found = result.find(key);
    if (found == result.end()) return was_ours || own.empty();
    return found->is_string() && *found == own;
  };
  if (!is_ours(kJobKey, options_.owner.job_uid) || !is_ours(kTestSetKey, options_.test_set) ||
      !is_ours(kLossKey, options_.loss_function) || manifest->model_hash != options_.model_hash) {
    LogWarning("the best checkpoint of another job, model, test set or loss will be replaced",
               {{"folder", folder}, {"step", manifest->step}});
    return none;
  }
  const absl::Status loaded =
      LoadSnapshot(files_, folder, options_.model_hash, CheckpointParts::kModelAndOptimizer)
          .status();
  if (absl::IsDataLoss(loaded)) return none;
  LOCKSTEP_RETURN_IF_ERROR(loaded);
  return Goodness({.loss = NumberOrNanOf(result, "testLoss"),
                   .metric = NumberOrNanOf(result, MetricKey(options_.loss)),
                   .metrics = NamedOf(result, options_.evaluation)});
}

// A job that goes on from the directory takes the copy of the greatest step, which may be a worse.
void BestCheckpoint::RemoveOthers(const std::vector<api::CheckpointName>& names,
                                  const api::CheckpointName& best) {
  for (const api::CheckpointName& name : names) {
    if (name == best) continue;
    const std::string folder = options_.directory + "/" + name.ToString();
    if (const absl::Status removed = RemoveCheckpoint(files_, folder); !removed.ok()) {
      LogWarning("a copy that is not the best stays",
                 {{"folder", folder}, {"error", std::string(removed.message())}});
    }
  }
}

absl::Status BestCheckpoint::Open() {
  if (store_ == nullptr) opened_ = Look();
  return opened_;
}

// A process that died before it had removed the previous copy has left several.
absl::Status BestCheckpoint::Look() {
  if (!was_ours_) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto owner, ReadOwner(files_, options_.directory));
    was_ours_ = owner && owner->process.job_uid == options_.owner.job_uid;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<CheckpointStore> store,
      CheckpointStore::Open(files_, options_.directory, kKeepLastSaved, options_.owner));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<api::CheckpointName> names,
                            ListFolders(files_, options_.directory));
  std::optional<double> best;
  api::CheckpointName best_name;
  for (const api::CheckpointName& name : names) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> goodness, GoodnessOfCopy(name));
    if (!goodness || (best && *goodness <= *best)) continue;
    best = goodness;
    best_name = name;
  }
  if (best) RemoveOthers(names, best_name);
  best_ = best;
  store_ = std::move(store);
  return absl::OkStatus();
}

absl::Status BestCheckpoint::Offer(Snapshot snapshot, const EvaluationResult& result) {
  if (store_ == nullptr) return opened_;
  const double goodness = Goodness(result);
  if (best_ && goodness <= *best_) return absl::OkStatus();
  nlohmann::json& state = snapshot.state[kResultKey];
  state = {{kJobKey, options_.owner.job_uid},
           {kTestSetKey, options_.test_set},
           {kLossKey, options_.loss_function}};
  if (std::isfinite(result.loss)) state["testLoss"] = result.loss;
  if (std::isfinite(result.metric)) state[MetricKey(options_.loss)] = result.metric;
  if (!result.metrics.empty()) {
    state[kMetricsKey] = KeptMetrics(result.metrics, options_.evaluation).ToJson();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string folder, store_->Save(snapshot));
  best_ = goodness;
  LogInfo("kept the best checkpoint", {{"step", result.step}, {"folder", folder}});
  return absl::OkStatus();
}

}  // namespace lockstep::train
