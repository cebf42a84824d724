// How the job's Evaluator tells the leading pod's supervisor what it has found.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

struct EvaluationResult {
  std::int64_t step = -1;  // of the checkpoint; -1: nothing is evaluated yet
  // Means over the test set. The metric is the accuracy, or the mean absolute error: api::MetricOf.
  double loss = 0, metric = 0;
  api::TestMetrics metrics = {};    // that training.evaluation.metrics names
  bool misses_checkpoints = false;  // that the leading pod has told of: see UnseenCheckpoints
  std::string test_set = {};        // what the numbers are of: see IdentityOf; and the loss
  bool voids_earlier = false;       // step is -1, but there were results on another test set
};

struct LeaderAnswer {
  std::int64_t checkpoint_step = -1;  // of the last checkpoint that it has saved; -1: none, unknown
};

// Sends the result to `address` (host:port), on a connection of its own, and waits for the answer
// at most `timeout`. The leading pod keeps the result of the greatest step on the latest test set.
// `identity` gives the job, its token and its metric. Unavailable: nobody answers there, as when
// the leading pod is being replaced or has ended. PermissionDenied: what answers is not this job's,
// or has another token.
absl::StatusOr<LeaderAnswer> ReportEvaluation(const Identity& identity, const std::string& address,
                                              const EvaluationResult& result, Duration timeout);

}  // namespace lockstep::train
