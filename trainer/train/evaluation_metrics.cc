#include "trainer/train/evaluation_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "trainer/core/count_limbs.h"

namespace lockstep::train {
namespace {

double RatioOr0(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

float Sigmoid(float logit) {
  return 1.0f / (1.0f + std::exp(-logit));
}

std::size_t ClassOf(const EvaluatedRows& rows, std::size_t row, std::size_t classes) {
  if (!rows.labels.empty()) return static_cast<std::size_t>(rows.labels[row]);
  const std::span<const float> label = rows.targets.subspan(row * classes, classes);
  return static_cast<std::size_t>(std::ranges::max_element(label) - label.begin());
}

}  // namespace

absl::Status CheckTopK(const api::EvaluationSpec& spec, std::int64_t classes) {
  const bool is_named =
      std::ranges::count(spec.metrics, api::TestMetric::kTopKCategoricalAccuracy) > 0;
  if (!is_named || spec.top_k < classes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("spec.training.evaluation.topK: found {} with {} classes, expected fewer than "
                  "these: every sample is right among all of them",
                  spec.top_k, classes));
}

bool EvaluationMetrics::Names(std::initializer_list<api::TestMetric> any_of) const {
  return std::ranges::find_first_of(spec_.metrics, any_of) != spec_.metrics.end();
}

void EvaluationMetrics::Add(const EvaluatedRows& rows) {
  using enum api::TestMetric;
  const std::size_t outputs = rows.outputs.size() / rows.weights.size();
  const bool ranks = Names({kTopKCategoricalAccuracy});
  const bool decides = Names({kAuc, kPrecision, kRecall});
  const bool measures_errors = Names({kMeanSquaredError, kRootMeanSquaredError});
  for (std::size_t row = 0; row < rows.weights.size(); ++row) {
    if (rows.weights[row] == 0) continue;
    counts_[kRows] += 1;
    counts_[kNumbers] += static_cast<double>(outputs);
    const std::span<const float> given = rows.outputs.subspan(row * outputs, outputs);
    if (ranks) AddTopK(given, ClassOf(rows, row, outputs));
    for (std::size_t i = 0; i < outputs; ++i) {
      if (decides) AddDecision(given[i], rows.targets[row * outputs + i] != 0);
      if (!measures_errors) continue;
      const double error =
          static_cast<double>(given[i]) - static_cast<double>(rows.targets[row * outputs + i]);
      squared_error_ += error * error;
    }
  }
}

// As tf.math.in_top_k: classes with the same logit do not displace each other.
void EvaluationMetrics::AddTopK(std::span<const float> logits, std::size_t own) {
  const auto larger =
      std::ranges::count_if(logits, [&](float logit) { return logit > logits[own]; });
  if (std::isfinite(logits[own]) && larger < spec_.top_k) counts_[kInTopK] += 1;
}

// A probability that equals a threshold is not above it. The lowest threshold is just below 0.
void EvaluationMetrics::AddDecision(float logit, bool is_positive) {
  const float probability = Sigmoid(logit);
  const float thresholds = std::ceil(probability * static_cast<float>(kThresholds - 1)) - 1;
  // NaN counts in the first interval, too; the loss is NaN then.
  const std::size_t interval = thresholds > 0 ? static_cast<std::size_t>(thresholds) : 0;
  counts_[(is_positive ? kPositives : kNegatives) + interval] += 1;
  if (probability > 0.5f) {
    counts_[is_positive ? kTruePositives : kFalsePositives] += 1;
  } else if (is_positive) {
    counts_[kFalseNegatives] += 1;
  }
}

std::vector<float> EvaluationMetrics::Totals() const {
  if (empty()) return {};
  std::vector<float> totals = {static_cast<float>(squared_error_)};
  for (const double count : counts_) {
    const CountLimbs limbs = SplitCount(count);
    totals.insert(totals.end(), {limbs.high, limbs.low});
  }
  return totals;
}

void EvaluationMetrics::SetTotals(std::span<const float> totals) {
  if (empty()) return;
  LOCKSTEP_CHECK(totals.size() == 1 + 2 * counts_.size(), "found {} totals of metrics, expected {}",
                 totals.size(), 1 + 2 * counts_.size());
  squared_error_ = static_cast<double>(totals[0]);
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] = JoinCount({.high = totals[1 + 2 * i], .low = totals[2 + 2 * i]});
  }
}

// The threshold goes from 1 down to 0, and the curve from (0, 0) to (1, 1).
double EvaluationMetrics::Auc() const {
  const std::span<const double> counts = counts_;
  const auto positives = counts.subspan(kPositives, kThresholds);
  const auto negatives = counts.subspan(kNegatives, kThresholds);
  const double all_positives = std::accumulate(positives.begin(), positives.end(), 0.0);
  const double all_negatives = std::accumulate(negatives.begin(), negatives.end(), 0.0);
  double area = 0, above = 0;  // above: positives above the threshold
  for (std::size_t i = kThresholds; i-- > 0;) {
    const double width = RatioOr0(negatives[i], all_negatives);
    area += width * RatioOr0(2 * above + positives[i], 2 * all_positives);
    above += positives[i];
  }
  return area;
}

double EvaluationMetrics::Result(api::TestMetric metric) const {
  using enum api::TestMetric;
  switch (metric) {
    case kTopKCategoricalAccuracy:
      return counts_[kInTopK] / counts_[kRows];
    case kAuc:
      return Auc();
    case kPrecision:
      return RatioOr0(counts_[kTruePositives], counts_[kTruePositives] + counts_[kFalsePositives]);
    case kRecall:
      return RatioOr0(counts_[kTruePositives], counts_[kTruePositives] + counts_[kFalseNegatives]);
    case kMeanSquaredError:
      return squared_error_ / counts_[kNumbers];
    case kRootMeanSquaredError:
      return std::sqrt(squared_error_ / counts_[kNumbers]);
  }
  LOCKSTEP_CHECK(false, "unknown metric {}", static_cast<int>(metric));
  return 0;
}

api::TestMetrics EvaluationMetrics::Results() const {
  api::TestMetrics results;
  for (const api::TestMetric metric : spec_.metrics) {
    const double result = Result(metric);
    if (std::isfinite(result)) results[metric] = result;
  }
  return results;
}

const char* SummaryTagOf(api::TestMetric metric) {
  using enum api::TestMetric;
  switch (metric) {
    case kTopKCategoricalAccuracy:
      return "test/top_k_categorical_accuracy";
    case kAuc:
      return "test/auc";
    case kPrecision:
      return "test/precision";
    case kRecall:
      return "test/recall";
    case kMeanSquaredError:
      return "test/mean_squared_error";
    case kRootMeanSquaredError:
      return "test/root_mean_squared_error";
  }
  LOCKSTEP_CHECK(false, "unknown metric {}", static_cast<int>(metric));
  return "";
}

}  // namespace lockstep::train
