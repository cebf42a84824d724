// What an evaluation measures beside the loss and its accuracy or mean absolute error, by the names
// of training.evaluation.metrics. Computed on the host from the model's outputs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "api/v1/training_job.h"

namespace lockstep::train {

// The rows of a part of a batch, in host memory, as the loss sees them.
struct EvaluatedRows {
  std::span<const float> outputs;        // N,K: with a crossentropy logits, else predictions
  std::span<const std::int32_t> labels;  // N; empty if the loss reads targets
  std::span<const float> targets;        // N,K; empty if it reads labels
  std::span<const float> weights;        // N; 0: padding, which does not count
};

// InvalidArgument: TopKCategoricalAccuracy is named, and would be 1 for any model, because topK is
// not below the number of classes.
absl::Status CheckTopK(const api::EvaluationSpec& spec, std::int64_t classes);

// Adds up what the named metrics need, with the results of Keras' metrics of the same names:
// - TopKCategoricalAccuracy: samples of whose classes fewer than topK have a larger logit than the
//   sample's own class (with one-hot labels: the first one of the largest number).
// - AUC: of the ROC curve at 200 thresholds, by the trapezoidal rule.
// - Precision, Recall: of probabilities above 0.5. 0 if there is nothing to divide by.
// - MeanSquaredError, RootMeanSquaredError: over all numbers of all samples.
// With a binary loss of several numbers, each is a decision of its own, and positive if its label
// is not 0. Not thread-safe.
class EvaluationMetrics {
 public:
  explicit EvaluationMetrics(const api::EvaluationSpec& spec) : spec_(spec) {}
  bool empty() const { return spec_.metrics.empty(); }

  void Add(const EvaluatedRows& rows);

  // What ranks sum to get the totals of all: counts, whose float sums are exact, and the sum of the
  // squared errors. Equally long on all ranks; empty if no metric is named.
  std::vector<float> Totals() const;
  // Replaces the totals. Requires: `totals` is as long as Totals().
  void SetTotals(std::span<const float> totals);

  // Returns the results of the totals so far that are finite. Requires: there were rows.
  api::TestMetrics Results() const;

 private:
  static constexpr std::size_t kThresholds = 200;
  // Places in counts_. A histogram has the decisions by the interval between two thresholds in
  // which their probability is; above the last threshold, there is none.
  enum Count : std::size_t {
    kRows,
    kNumbers,  // outputs of all rows
    kInTopK,   // rows
    kTruePositives,
    kFalsePositives,
    kFalseNegatives,
    kPositives,  // a histogram
    kNegatives = kPositives + kThresholds,
    kCounts = kNegatives + kThresholds,
  };

  bool Names(std::initializer_list<api::TestMetric> any_of) const;
  void AddTopK(std::span<const float> logits, std::size_t own);
  void AddDecision(float logit, bool is_positive);
  double Auc() const;
  double Result(api::TestMetric metric) const;

  const api::EvaluationSpec spec_;
  std::array<double, kCounts> counts_ = {};
  double squared_error_ = 0;
};

// The name that a summary for TensorBoard has, as Keras calls it: "test/auc".
const char* SummaryTagOf(api::TestMetric metric);

}  // namespace lockstep::train
