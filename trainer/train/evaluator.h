// The Evaluator: follows a run's checkpoints and evaluates each on the test set, beside the
// training, which does not wait for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainer/checkpoint/evaluation_record.h"
#include "trainer/checkpoint/follower.h"
#include "trainer/checkpoint/owner.h"
#include "trainer/observe/evaluator_metrics.h"
#include "trainer/observe/summaries.h"
#include "trainer/rendezvous/report_evaluation.h"
#include "trainer/train/best_checkpoint.h"
#include "trainer/train/loop_outcome.h"
#include "trainer/train/session.h"

namespace lockstep::train {

struct EvaluatorOptions {
  std::string job_uid;
  CheckpointOwner owner;  // of the folder best/
  // Tells the leading pod a result. After a failure it is called again with the latest result.
  std::function<absl::Status(const EvaluationResult&)> report;
  std::function<bool()> stop_requested;
  // Called at the start, after each evaluation, and about once per second during one.
  std::function<void(const EvaluatorMetrics&)> publish;
  Duration look_every = std::chrono::milliseconds(500);  // at the directory, while waiting
};

// Not thread-safe.
class Evaluator {
 public:
  // Reads checkpoint.directory. Writes there only evaluation.json and, with keepBest, best/; if it
  // may not, it logs that and goes on. Writes summaries below summaries.directory, in `eval`.
  // Requires: the session has a test set.
  Evaluator(Session& session, FileSystem& files, const Clock& clock, EvaluatorOptions options);

  // The bytes of a checkpoint while it is read, at most: its tensors, and the file that they are
  // taken from.
  static std::size_t BytesOfCheckpoint(Session& session);

  // Evaluates each complete checkpoint once, the oldest first. A checkpoint may be skipped if it is
  // damaged or removed, or if the Evaluator is too slow: see CheckpointFollower. Returns
  //   kDone: a checkpoint of the run's last step is evaluated: training has ended;
  //   kStopped: stop_requested;
  //   kFailed: a checkpoint is not of this job's model or settings, or a test sample cannot be
  //   read.
  LoopOutcome Run();

  // The last evaluation, of this process or an earlier one; step -1: none yet.
  const EvaluationRecord& last() const { return last_; }

 private:
  std::optional<LoopOutcome> RunOnce(bool& waits);
  std::optional<LoopOutcome> EvaluateSnapshot(Snapshot snapshot);
  void Note(Snapshot snapshot);
  void Report();
  void BatchDone();
  void Publish() const;
  void LogSkipped();
  void Pause() const;

  Session& session_;
  FileSystem& files_;
  const Clock& clock_;
  const EvaluatorOptions options_;
  const std::string directory_, model_hash_;
  EvaluationRecord last_;
  CheckpointFollower follower_;
  std::optional<BestCheckpoint> best_;
  std::unique_ptr<SummaryWriter> summaries_;  // null: none
  SteadyTime next_look_{};
  std::int64_t skipped_before_ = 0;  // by earlier processes
  std::int64_t evaluations_ = 0, batches_ = 0;
  bool is_reported_ = true;
  bool may_write_ = true;  // evaluation.json, at the last attempt
};

}  // namespace lockstep::train
