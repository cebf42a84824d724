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
#include "trainer/train/evaluator/best_checkpoint.h"
#include "trainer/train/evaluator/unseen_checkpoints.h"
#include "trainer/train/loop_outcome.h"
#include "trainer/train/session.h"

namespace lockstep::train {

struct EvaluatorOptions {
  std::string job_uid;
  std::string test_set;   // see IdentityOf; and NormalizeText
  CheckpointOwner owner;  // of the folder best/
  // Tells the leading pod a result: see ReportEvaluation. After a failure, it is called again with
  // the latest result, at growing intervals. While the Evaluator waits, it is also called every
  // ask_every, with the latest result or none, to learn which checkpoint the leading pod has saved
  // last.
  std::function<absl::StatusOr<LeaderAnswer>(const EvaluationResult&)> report;
  std::function<bool()> stop_requested;
  // Makes the session that evaluates; called once, when the run's first checkpoint is there. An
  // error ends the Evaluator.
  std::function<absl::StatusOr<std::unique_ptr<Session>>(const FollowedRun&)> make_session;
  // Called at the start, after each evaluation, and about once per second during one.
  std::function<void(const EvaluatorMetrics&)> publish;
  // How often to look at the directory, while waiting.
  Duration look_every = std::chrono::milliseconds(500);
  // How often to ask the leading pod, while waiting. After a failed report, the first pause is
  // look_every, and each further one is twice the one before, up to this value.
  Duration ask_every = std::chrono::seconds(10);
};

// Not thread-safe.
class Evaluator {
 public:
  // Reads checkpoint.directory. Writes there only evaluation.json and, with keepBest, best/; if it
  // may not, it logs that and goes on. Writes summaries below summaries.directory, in `eval`.
  Evaluator(api::TrainingSpec training, FileSystem& files, const Clock& clock,
            EvaluatorOptions options);

  // Waits while the directory belongs to another job and this job has not taken it over. Then
  // evaluates each complete checkpoint once on this test set by this loss, the oldest first; once
  // training has ended, that of the run's last step first, and then the others for at most
  // kForTheOthers. A checkpoint may be skipped if it cannot be read or is removed, or if the
  // Evaluator is too slow: see CheckpointFollower. Returns
  //   kDone: a checkpoint of the run's last step is evaluated: training has ended;
  //   kStopped: stop_requested before that;
  //   kDiverged: the test loss of the latest evaluated step is not finite; it is recorded and
  //   reported like any other result;
  //   kFailed: a checkpoint is not of this job's model or settings, the session cannot be made, or
  //   a test sample cannot be read.
  LoopOutcome Run();
  // How long the other checkpoints may take after the last one. It is bounded because the job keeps
  // its resources while it waits for its Evaluator.
  static constexpr Duration kForTheOthers = std::chrono::minutes(2);

  // The evaluation of the latest step, of this process or an earlier one; step -1: none yet.
  const EvaluationRecord& last() const { return last_; }
  // The number of steps of the run. Requires: Run has returned kDone.
  std::int64_t total_steps() const { return session_->total_steps(); }

 private:
  bool IsDirectoryOfAnotherJob();
  std::optional<LoopOutcome> Prepare();
  void OpenBest();
  std::optional<LoopOutcome> RunOnce(bool& waits);
  std::optional<LoopOutcome> EvaluateSnapshot(Snapshot snapshot);
  // Returns true until the first evaluation if earlier ones were on another test set or by another
  // loss. Reports then tell the leading pod that those numbers are void.
  bool Voids() const { return starts_over_ && last_.step < 0; }
  bool HasEnded() const { return session_ != nullptr && last_.step >= session_->total_steps(); }
  bool HasAccuracy() const { return api::IsCrossentropy(training_.loss.type); }
  void NoteListing(const absl::Status& status);
  bool MustStop() const;
  void Record(Snapshot snapshot, const EvaluationResult& result);
  void Summarize(const EvaluationResult& result);
  void WriteRecord();
  void Report();
  void BatchDone();
  void Publish() const;
  bool CountSkipped();

  const api::TrainingSpec training_;
  FileSystem& files_;
  const Clock& clock_;
  const EvaluatorOptions options_;
  const std::string directory_;
  const std::string loss_function_;  // see LossText
  bool starts_over_ = false;         // checkpoints were evaluated, but on another test set or loss
  EvaluationRecord last_;
  // Made by Prepare.
  std::unique_ptr<Session> session_;
  std::string model_hash_;
  std::optional<CheckpointFollower> follower_;
  std::optional<BestCheckpoint> best_;
  std::unique_ptr<SummaryWriter> summaries_;  // null: none
  bool has_summarized_ = false;
  UnseenCheckpoints unseen_;
  std::int64_t leader_step_ = -1;  // see LeaderAnswer
  SteadyTime next_look_{}, next_ask_{};
  Duration retry_in_{};                // after the next failure
  std::optional<SteadyTime> ends_at_;  // set once the run's last checkpoint is evaluated
  std::int64_t skipped_before_ = 0;    // by earlier processes
  std::int64_t evaluations_ = 0, batches_ = 0;
  bool is_reported_ = true;
  bool waits_for_directory_ = false;  // and has said so
  // Whether the last attempt succeeded. A failure is logged only if the attempt before it had
  // succeeded.
  bool may_write_ = true;  // evaluation.json
  bool may_list_ = true;   // the directory
  bool may_report_ = true;
};

}  // namespace lockstep::train
