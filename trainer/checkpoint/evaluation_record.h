// evaluation.json: what an Evaluator has done, so that its next process does not do it again. The
// only file that it keeps in the checkpoint directory, beside the folder best/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "base/clock.h"
#include "trainer/checkpoint/file_system.h"

namespace lockstep::train {

struct EvaluationRecord {
  std::string job_uid;
  std::string test_set;         // what tells it from another; empty: not known
  std::string loss_function;    // the same of the loss; empty: not known, by an earlier version
  std::int64_t step = -1;       // of the checkpoint that was evaluated last
  Time saved;                   // as in its Snapshot
  double loss = 0, metric = 0;  // NaN or infinite if the evaluation was; see EvaluationResult
  api::TestMetrics metrics;     // that the job named
  int top_k = 0;                // of TopKCategoricalAccuracy; 0: not known
  std::int64_t skipped = 0;     // see CheckpointFollower
};

// Replaces the file in `directory`, unless it has a later step of the same job, test set and
// loss: another process of the Evaluator is further. A process that dies meanwhile leaves the old
// file. Errors: see FileSystem.
absl::Status WriteEvaluationRecord(FileSystem& files, const std::string& directory,
                                   const EvaluationRecord& record);

// Returns nullopt if there is none, it is damaged, or it is of another job: what another job has
// evaluated may have been trained otherwise. Errors: the disk.
absl::StatusOr<std::optional<EvaluationRecord>> ReadEvaluationRecord(FileSystem& files,
                                                                     const std::string& directory,
                                                                     const std::string& job_uid);

}  // namespace lockstep::train
