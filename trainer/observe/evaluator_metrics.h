// The metrics of an Evaluator's process.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"

namespace lockstep::train {

struct EvaluatorMetrics {
  std::int64_t step = -1;  // of the checkpoint evaluated last, also by an earlier process; -1: none
  // From the last evaluation; NaN: unknown. A loss has an accuracy or a mean absolute error.
  double test_loss = std::numeric_limits<double>::quiet_NaN();
  double test_accuracy = std::numeric_limits<double>::quiet_NaN();
  double test_mean_absolute_error = std::numeric_limits<double>::quiet_NaN();
  api::TestMetrics test_metrics;
  std::int64_t evaluations = 0, batches = 0;  // of this process
  std::int64_t skipped = 0;                   // checkpoints, since the job began
  std::int64_t leader_step = -1;  // of the leading pod's last checkpoint, as it has told; -1: none
};

// Converts to and from one line of JSON. InvalidArgument: `line` is malformed, a field is missing
// or unknown, or a count is below 0. What is not finite is decoded as NaN.
std::string EncodeEvaluatorMetrics(const EvaluatorMetrics& metrics);
absl::StatusOr<EvaluatorMetrics> DecodeEvaluatorMetrics(const std::string& line);

}  // namespace lockstep::train
