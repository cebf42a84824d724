#include "trainer/observe/evaluator_metrics.h"

#include <array>

#include "trainer/observe/metrics_json.h"

namespace lockstep::train {
namespace {

constexpr auto kEvaluatorFields = std::to_array<MetricField<EvaluatorMetrics>>({
    {"step", &EvaluatorMetrics::step, -1},
    {"evaluations", &EvaluatorMetrics::evaluations},
    {"batches", &EvaluatorMetrics::batches},
    {"skipped", &EvaluatorMetrics::skipped},
    {"leaderStep", &EvaluatorMetrics::leader_step, -1},
    {"testLoss", &EvaluatorMetrics::test_loss},
    {"testAccuracy", &EvaluatorMetrics::test_accuracy},
    {"testMeanAbsoluteError", &EvaluatorMetrics::test_mean_absolute_error},
    {"testMetrics", &EvaluatorMetrics::test_metrics},
});

}  // namespace

std::string EncodeEvaluatorMetrics(const EvaluatorMetrics& metrics) {
  return EncodeFields<EvaluatorMetrics>(metrics, kEvaluatorFields);
}

absl::StatusOr<EvaluatorMetrics> DecodeEvaluatorMetrics(const std::string& line) {
  return DecodeFields<EvaluatorMetrics>(line, kEvaluatorFields);
}

}  // namespace lockstep::train
