// Keeps the best of the checkpoints that an Evaluator has evaluated, as a copy that the retention
// of the training's own checkpoints does not touch.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/v1/training_job.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/checkpoint/store.h"
#include "trainer/rendezvous/report_evaluation.h"

namespace lockstep::train {

struct BestCheckpointOptions {
  std::string directory;  // only for these copies; see checkpoint/format.md
  api::BestMetric by = api::BestMetric::kAccuracy;
  api::LossType loss = {};              // of the job
  api::EvaluationSpec evaluation = {};  // of the job
  CheckpointOwner owner;                // its job is that of the copies
  std::string model_hash;
  std::string test_set;       // as the Evaluator's
  std::string loss_function;  // see LossText
};

// Not thread-safe.
class BestCheckpoint {
 public:
  BestCheckpoint(FileSystem& files, BestCheckpointOptions options)
      : files_(files), options_(std::move(options)) {}

  // Reads what the directory has: the caller holds no checkpoint meanwhile, because this takes as
  // much memory as reading one. If a process that died has left several copies of this job, removes
  // all but the best. Does nothing once it has succeeded. Errors: see CheckpointStore.
  absl::Status Open();
  bool is_open() const { return store_ != nullptr; }
  // Saves `snapshot`, with the result in its state, if the result is better than that of the best
  // copy in the directory, or if there is no copy. Then removes the other copies, whatever their
  // steps. Of equal ones the first is kept. A copy of another job, model, test set or loss does not
  // count as one: its numbers do not compare. A result that lacks the number, or has one that is
  // not finite, is worse than any other. On failure, an earlier copy is unchanged. Errors: of the
  // latest Open, or see CheckpointStore. Requires: Open was called.
  absl::Status Offer(Snapshot snapshot, const EvaluationResult& result);

 private:
  absl::Status Look();
  absl::StatusOr<std::optional<double>> GoodnessOfCopy(const api::CheckpointName& name) const;
  void RemoveOthers(const std::vector<api::CheckpointName>& names, const api::CheckpointName& best);
  double Goodness(const EvaluationResult& result) const;

  FileSystem& files_;
  const BestCheckpointOptions options_;
  std::unique_ptr<CheckpointStore> store_;  // null: not opened yet
  absl::Status opened_;                     // why not
  std::optional<double> best_;              // of the best copy; nullopt: there is none
  // Whether the directory belonged to this job before this process claimed it; nullopt: not known.
  std::optional<bool> was_ours_;
};

}  // namespace lockstep::train
