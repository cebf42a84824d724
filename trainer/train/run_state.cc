#include "trainer/train/run_state.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "api/v1/enum_names.h"
#include "api/v1/test_metrics.h"
#include "base/status.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

// Ranks of one group broadcast it as raw bytes: whoever changes its fields increments kProtocol, so
// that trainers with other fields refuse each other.
static_assert(kProtocol == 12 && sizeof(RunState) == 360);

KeptMetrics::KeptMetrics(const api::TestMetrics& metrics, const api::EvaluationSpec& by) {
  for (const auto& [metric, value] : metrics) {
    values_[static_cast<std::size_t>(metric)] = value;
    has_[static_cast<std::size_t>(metric)] = 1;
  }
  if (metrics.contains(api::TestMetric::kTopKCategoricalAccuracy)) top_k_ = by.top_k;
}

api::TestMetrics KeptMetrics::Of(const api::EvaluationSpec& spec) const {
  api::TestMetrics found;
  for (const api::TestMetric metric : spec.metrics) {
    const auto place = static_cast<std::size_t>(metric);
    const bool is_of_other_k =
        metric == api::TestMetric::kTopKCategoricalAccuracy && top_k_ != spec.top_k;
    if (has_[place] != 0 && !is_of_other_k) found[metric] = values_[place];
  }
  return found;
}

api::TestMetrics KeptMetrics::All() const {
  api::TestMetrics kept;
  for (const auto& [metric, name] : api::kEnumNames<api::TestMetric>) {
    const auto place = static_cast<std::size_t>(metric);
    if (has_[place] != 0) kept[metric] = values_[place];
  }
  return kept;
}

nlohmann::json KeptMetrics::ToJson() const {
  const api::TestMetrics kept = All();
  if (kept.empty()) return {};
  nlohmann::json json = api::TestMetricsToJson(kept);
  if (top_k_ != 0) json["topK"] = top_k_;
  return json;
}

KeptMetrics KeptMetrics::FromJson(const nlohmann::json& json) {
  if (json.is_null()) return {};
  return {api::TestMetricsFromJson(json), {.top_k = json.value("topK", 0)}};
}

void ApplyStep(const StepTotals& totals, const StepPlan& plan, RunState& state) {
  if (plan.StepInEpoch(state.step) == 0) {
    state.sums = {};
    state.epoch_replicas = plan.deals_files ? plan.world : 0;
  }
  const std::int64_t examples = std::llround(totals.examples);
  if (totals.skipped) {
    state.skipped_steps += 1;
    state.skipped_in_a_row += 1;
  } else {
    state.skipped_in_a_row = 0;
    state.sums.examples += examples;
    state.sums.loss += totals.loss;
    state.sums.correct += totals.correct;
  }
  if (totals.loss_scale) state.loss_scale = *totals.loss_scale;
  state.ledger.Add(examples, totals.hash);
  state.step += 1;
  if (plan.StepInEpoch(state.step) != 0) return;
  state.ledger.Check(plan.examples);
  state.epoch_replicas = 0;
}

// As Keras' EarlyStopping.
void CountEvaluation(const api::EarlyStoppingSpec& stopping, const StepPlan& plan,
                     RunState& state) {
  if (state.step <= stopping.start_from_epoch * plan.StepsPerEpoch()) return;
  BestEvaluation& best = state.best;
  best.metric = stopping.metric;
  const double value = api::NumberOf(stopping.metric, state.test_loss, state.test_accuracy,
                                     state.test_metrics.All());
  const double sign = api::IsBetterHigher(stopping.metric) ? 1 : -1;
  const bool is_better = best.step < 0 || sign * value - stopping.min_delta > sign * best.value;
  if (is_better && std::isfinite(value)) {
    best = {.step = state.step,
            .value = value,
            .test_loss = state.test_loss,
            .test_accuracy = state.test_accuracy,
            .test_metrics = state.test_metrics,
            .metric = stopping.metric};
  } else {
    best.without_improvement += 1;
  }
}

void ForgetEvaluations(RunState& state) {
  state.evaluated_step = -1;
  state.test_loss = state.test_accuracy = 0;
  state.test_metrics = {};
  state.best = {};
}

void KeepBestOf(const api::TrainingSpec& training, RunState& state) {
  const auto& stopping = training.early_stopping;
  BestEvaluation& best = state.best;
  if (!stopping || stopping->metric != best.metric) best = {};
  const double number = api::NumberOf(best.metric, best.test_loss, best.test_accuracy,
                                      best.test_metrics.Of(training.evaluation));
  if (best.step >= 0 && std::isnan(number)) best = {};
}

bool HasStoppedEarly(const api::TrainingSpec& training, const RunState& state) {
  const auto& stopping = training.early_stopping;
  return stopping && state.evaluated_step == state.step &&
         state.best.without_improvement >= stopping->patience;
}

bool RestoresBest(const api::TrainingSpec& training, const RunState& state) {
  const auto& stopping = training.early_stopping;
  return stopping && stopping->restore_best && state.best.step >= 0;
}

namespace {

// Earlier versions wrote {1, 0} for every run that was not of Float16. One of Float16 comes there
// only in the step after its scale has fallen to 1, and finds it again by skipping a few steps.
void ReadLossScale(const nlohmann::json& json, LossScale& scale) {
  const LossScale written{.value = json.value("lossScale", scale.value),
                          .updates = json.value("lossScaleUpdates", scale.updates)};
  if (written != LossScale{}) scale = written;
}

// Returns infinity for null, as JSON saves it: the absolute errors of labels of 1e38 have such a
// sum in a step whose loss and gradients are finite.
double SumOf(const nlohmann::json& json, const char* name) {
  const nlohmann::json& sum = json.at(name);
  return sum.is_null() ? std::numeric_limits<double>::infinity() : sum.get<double>();
}

// Old checkpoints hold null for an evaluation that gave NaN, which JSON lacks; it is evaluated
// again.
void ReadEvaluation(const nlohmann::json& json, RunState& state) {
  const nlohmann::json loss = json.value("testLoss", nlohmann::json());
  const nlohmann::json accuracy = json.value("testAccuracy", nlohmann::json());
  if (loss.is_null() || accuracy.is_null()) return;
  json.at("evaluatedStep").get_to(state.evaluated_step);
  loss.get_to(state.test_loss);
  accuracy.get_to(state.test_accuracy);
  state.test_metrics = KeptMetrics::FromJson(json.value("testMetrics", nlohmann::json()));
  state.evaluated_on = json.value("evaluatedOn", state.evaluated_on);
}

void ReadBest(const nlohmann::json& json, BestEvaluation& best) {
  const nlohmann::json written = json.value("best", nlohmann::json());
  if (written.is_null()) return;
  written.at("step").get_to(best.step);
  written.at("value").get_to(best.value);
  written.at("withoutImprovement").get_to(best.without_improvement);
  best.test_loss = written.value("testLoss", best.test_loss);
  best.test_accuracy = written.value("testAccuracy", best.test_accuracy);
  best.test_metrics = KeptMetrics::FromJson(written.value("testMetrics", nlohmann::json()));
  // A metric of a later version is another one than the job's.
  const auto* metric = api::FindByName<api::BestMetric>(written.at("metric").get<std::string>());
  if (metric == nullptr) {
    best = {};
  } else {
    best.metric = *metric;
  }
}

// A job that names none writes what it has always written.
void AddMetrics(const KeptMetrics& metrics, nlohmann::json& json) {
  nlohmann::json written = metrics.ToJson();
  if (!written.is_null()) json["testMetrics"] = std::move(written);
}

nlohmann::json BestToJson(const BestEvaluation& best) {
  nlohmann::json json = {{"step", best.step},
                         {"value", best.value},
                         {"testLoss", best.test_loss},
                         {"testAccuracy", best.test_accuracy},
                         {"withoutImprovement", best.without_improvement},
                         {"metric", std::string(api::NameOf(best.metric))}};
  AddMetrics(best.test_metrics, json);
  return json;
}

absl::Status ExpectNoNegativeCount(const RunState& state) {
  const std::pair<const char*, std::int64_t> counts[] = {
      {"step", state.step},
      {"examples", state.sums.examples},
      {"skippedSteps", state.skipped_steps},
      {"skippedInARow", state.skipped_in_a_row},
      {"leftOutSteps", state.left_out_steps},
      {"epochReplicas", state.epoch_replicas},
      {"lossScaleUpdates", state.loss_scale.updates},
      {"best.withoutImprovement", state.best.without_improvement}};
  for (const auto& [name, count] : counts) {
    if (count >= 0) continue;
    return absl::DataLossError(
        fmt::format("the manifest's run state: {} is {}, expected at least 0", name, count));
  }
  return absl::OkStatus();
}

}  // namespace

nlohmann::json RunStateToJson(const RunState& state) {
  nlohmann::json json = {{"step", state.step},
                         {"examples", state.sums.examples},
                         {"loss", state.sums.loss},
                         {"correct", state.sums.correct},
                         {"ledger", state.ledger.ToIntegers()},
                         {"evaluatedStep", state.evaluated_step},
                         {"evaluatedOn", state.evaluated_on},
                         {"skippedSteps", state.skipped_steps},
                         {"skippedInARow", state.skipped_in_a_row},
                         {"leftOutSteps", state.left_out_steps},
                         {"lossScale", state.loss_scale.value},
                         {"lossScaleUpdates", state.loss_scale.updates},
                         {"testLoss", state.test_loss},
                         {"testAccuracy", state.test_accuracy}};
  AddMetrics(state.test_metrics, json);
  if (state.epoch_replicas != 0) json["epochReplicas"] = state.epoch_replicas;
  if (state.best != BestEvaluation{}) json["best"] = BestToJson(state.best);
  return json;
}

absl::StatusOr<RunState> RunStateFromJson(const nlohmann::json& json) {
  RunState state;
  Ledger::Integers ledger;
  try {
    json.at("step").get_to(state.step);
    json.at("examples").get_to(state.sums.examples);
    state.sums.loss = SumOf(json, "loss");
    state.sums.correct = SumOf(json, "correct");
    json.at("ledger").get_to(ledger);
    ReadEvaluation(json, state);
    state.skipped_steps = json.value("skippedSteps", state.skipped_steps);
    state.skipped_in_a_row = json.value("skippedInARow", state.skipped_in_a_row);
    state.left_out_steps = json.value("leftOutSteps", state.left_out_steps);
    state.epoch_replicas = json.value("epochReplicas", state.epoch_replicas);
    ReadLossScale(json, state.loss_scale);
    ReadBest(json, state.best);
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(fmt::format("the manifest's run state: {}", error.what()));
  }
  LOCKSTEP_RETURN_IF_ERROR(ExpectNoNegativeCount(state));
  const float scale = state.loss_scale.value;
  if (!(scale >= 1 && scale <= LossScale::kLargest)) {
    return absl::DataLossError(
        fmt::format("the manifest's run state: lossScale is {}, expected a number from 1 to {}",
                    scale, LossScale::kLargest));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(state.ledger, Ledger::FromIntegers(ledger));
  return state;
}

}  // namespace lockstep::train
