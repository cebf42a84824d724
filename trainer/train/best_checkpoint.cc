#include "trainer/train/best_checkpoint.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

constexpr char kResultKey[] = "evaluation";

const char* MetricKey(api::LossType loss) {
  return api::IsCrossentropy(loss) ? "testAccuracy" : "testMeanAbsoluteError";
}

}  // namespace

// The greater, the better. A number that is not finite is the worst.
double BestCheckpoint::Goodness(double loss, double metric) const {
  const double found = options_.by == api::BestMetric::kLoss ? loss : metric;
  const double value = options_.by == api::BestMetric::kAccuracy ? found : -found;
  return std::isfinite(value) ? value : -std::numeric_limits<double>::infinity();
}

absl::Status BestCheckpoint::Open() {
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<CheckpointStore> store,
      CheckpointStore::Open(files_, options_.directory, /*keep=*/1, options_.owner));
  absl::StatusOr<std::optional<Snapshot>> copy = store->LoadLatest(options_.model_hash);
  // A damaged copy is as good as none: the next one replaces it.
  if (!copy.ok() && !absl::IsDataLoss(copy.status())) return copy.status();
  if (copy.ok() && copy->has_value()) {
    const nlohmann::json result = (*copy)->state.value(kResultKey, nlohmann::json::object());
    const double nan = std::nan("");  // JSON has none
    best_ = Goodness(result.value("testLoss", nan), result.value(MetricKey(options_.loss), nan));
  }
  store_ = std::move(store);
  return absl::OkStatus();
}

absl::Status BestCheckpoint::Offer(Snapshot snapshot, const EvaluationResult& result) {
  if (store_ == nullptr) LOCKSTEP_RETURN_IF_ERROR(Open());
  const double goodness = Goodness(result.loss, result.metric);
  if (best_ && goodness <= *best_) return absl::OkStatus();
  nlohmann::json& state = snapshot.state[kResultKey] = nlohmann::json::object();
  if (std::isfinite(result.loss)) state["testLoss"] = result.loss;
  if (std::isfinite(result.metric)) state[MetricKey(options_.loss)] = result.metric;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string folder, store_->Save(snapshot));
  best_ = goodness;
  LogInfo("kept the best checkpoint", {{"step", result.step}, {"folder", folder}});
  return absl::OkStatus();
}

}  // namespace lockstep::train
