// The numbers of a Progress that evaluations on the test set give. Pure.
#pragma once

#include "api/v1/training_job.h"

namespace lockstep::api {

// Returns true if it has one of them.
inline bool HasEvaluation(const Progress& progress) {
  return progress.test_loss || progress.test_accuracy || progress.test_mean_absolute_error ||
         !progress.test_metrics.empty();
}

// Replaces those of `to` by those of `from`, also by none.
inline void CopyEvaluation(const Progress& from, Progress& to) {
  to.test_loss = from.test_loss;
  to.test_accuracy = from.test_accuracy;
  to.test_mean_absolute_error = from.test_mean_absolute_error;
  to.test_metrics = from.test_metrics;
}

}  // namespace lockstep::api
