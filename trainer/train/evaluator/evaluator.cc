#include "trainer/train/evaluator/evaluator.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "api/v1/names.h"
#include "base/log.h"
#include "base/pause.h"
#include "base/stop_signal.h"
#include "trainer/observe/metrics_json.h"
#include "trainer/train/evaluate.h"
#include "trainer/train/evaluation_metrics.h"
#include "trainer/train/run_state.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

// A listing may be a call to a file server.
constexpr auto kBetweenLooks = std::chrono::seconds(1);

// Returns what has been evaluated. Evaluations on another test set or by another loss do not count;
// `starts_over` is set to true if there were any.
EvaluationRecord RecordOf(FileSystem& files, const std::string& directory,
                          const EvaluatorOptions& options, const std::string& loss_function,
                          const api::EvaluationSpec& by, bool& starts_over) {
  const auto record = ReadEvaluationRecord(files, directory, options.job_uid);
  if (!record.ok()) {
    LogWarning("the record of evaluations cannot be read: all checkpoints are evaluated",
               {{"reason", std::string(record.status().message())}});
  }
  EvaluationRecord none{
      .job_uid = options.job_uid, .test_set = options.test_set, .loss_function = loss_function};
  if (!record.ok() || !record->has_value()) return none;
  EvaluationRecord found = **record;
  if (found.loss_function.empty()) found.loss_function = loss_function;
  if (found.test_set == options.test_set && found.loss_function == loss_function) {
    found.metrics = KeptMetrics(found.metrics, {.top_k = found.top_k}).Of(by);
    return found;
  }
  LogWarning("the test set or the loss is another than before: checkpoints are evaluated again",
             {{"before", found.test_set},
              {"now", options.test_set},
              {"lossBefore", found.loss_function},
              {"lossNow", loss_function}});
  none.skipped = found.skipped;
  starts_over = true;
  return none;
}

// Returns the step after which there are checkpoints to evaluate. This is the recorded step, or the
// one before it if the checkpoint of the recorded step has been saved again since, because training
// has continued from an earlier one.
std::int64_t EvaluatedStep(FileSystem& files, const std::string& directory,
                           const EvaluationRecord& record) {
  const absl::StatusOr<std::vector<api::CheckpointName>> folders = ListFolders(files, directory);
  if (!folders.ok() || record.saved == Time{}) return record.step;
  std::optional<api::CheckpointName> latest;  // of that step
  for (const api::CheckpointName& name : *folders) {
    if (name.step == record.step && (!latest || name > *latest)) latest = name;
  }
  if (!latest) return record.step;
  const auto manifest = ReadManifest(files, directory + "/" + latest->ToString());
  // The times are compared only for equality, because pods on two nodes have two clocks.
  const bool is_another = manifest.ok() && manifest->saved != record.saved;
  return is_another ? record.step - 1 : record.step;
}

// Where the summaries of the evaluations are: below those of the run.
std::string EvalSummaries(const std::string& directory) {
  return directory.empty() ? directory : directory + "/eval";
}

}  // namespace

Evaluator::Evaluator(api::TrainingSpec training, FileSystem& files, const Clock& clock,
                     EvaluatorOptions options)
    : training_(std::move(training)),
      files_(files),
      clock_(clock),
      options_(std::move(options)),
      directory_(training_.checkpoint.directory),
      loss_function_(LossText(training_)),
      last_(RecordOf(files, directory_, options_, loss_function_, training_.evaluation,
                     starts_over_)),
      summaries_(OpenSummaries(EvalSummaries(training_.summaries.directory))),
      retry_in_(options_.look_every),
      skipped_before_(last_.skipped) {
  is_reported_ = last_.step < 0;
}

// Returns true if the directory belongs to an earlier job and this job has not taken it over yet.
// It may never do so, because its group may not form. Until then, the earlier job may have its own
// Evaluator there, and best/ belongs to that job.
bool Evaluator::IsDirectoryOfAnotherJob() {
  const auto owner = ReadOwner(files_, directory_);
  if (!owner.ok() || !owner->has_value()) return false;
  const FolderOwner& found = **owner;
  const bool is_anothers =
      found.process.job_uid != options_.job_uid && !found.HasTakenFrom(options_.job_uid);
  if (is_anothers && !std::exchange(waits_for_directory_, true)) {
    LogInfo("another job has the checkpoint directory: waiting until this one has taken it",
            {{"directory", directory_}, {"jobUid", found.process.job_uid}});
  }
  return is_anothers;
}

// Does nothing until this job has the directory and a checkpoint there says what the run trains on.
std::optional<LoopOutcome> Evaluator::Prepare() {
  if (IsDirectoryOfAnotherJob()) return std::nullopt;
  const auto run = FindFollowedRun(files_, directory_);
  if (absl::IsFailedPrecondition(run.status())) return FailedFor(run.status());
  NoteListing(run.status());
  if (!run.ok() || !run->has_value()) return std::nullopt;
  auto session = options_.make_session(**run);
  if (!session.ok()) return FailedFor(session.status());
  session_ = *std::move(session);
  model_hash_ = ModelHash(*session_);
  follower_.emplace(files_, directory_,
                    FollowedSteps{.after = EvaluatedStep(files_, directory_, last_),
                                  .last = session_->total_steps()});
  if (const auto& by = training_.checkpoint.keep_best) {
    best_.emplace(files_, BestCheckpointOptions{.directory = directory_ + "/best",
                                                .by = *by,
                                                .loss = training_.loss.type,
                                                .evaluation = training_.evaluation,
                                                .owner = options_.owner,
                                                .model_hash = model_hash_,
                                                .test_set = options_.test_set,
                                                .loss_function = loss_function_});
    best_->Open().IgnoreError();  // Offer reports it
  }
  return std::nullopt;
}

// Tries again to open best/ if Prepare could not: the reason may have passed. Each attempt may read
// a whole checkpoint, so it waits until there is a checkpoint to evaluate, and comes before that
// one is read into memory.
void Evaluator::OpenBest() {
  if (!best_ || best_->is_open() || !follower_->Look().ok() || !follower_->has_due()) return;
  best_->Open().IgnoreError();
}

LoopOutcome Evaluator::Run() {
  LogInfo("following the checkpoints", {{"directory", directory_}, {"afterStep", last_.step}});
  next_ask_ = clock_.SteadyNow();
  if (is_reported_) next_ask_ += options_.ask_every;
  Publish();
  // The first evaluation may take long, and until then the numbers of the other test set would
  // stand.
  if (Voids()) Report();
  while (!MustStop()) {
    bool waits = false;
    if (std::optional<LoopOutcome> ended = RunOnce(waits)) return *std::move(ended);
    if (!waits) continue;
    const bool is_last_chance = HasEnded() && !is_reported_;
    if (is_last_chance || clock_.SteadyNow() >= next_ask_) Report();
    if (HasEnded()) break;
    Pause(clock_, options_.look_every, options_.stop_requested);
  }
  if (!HasEnded()) return {LoopEnd::kStopped, absl::OkStatus()};
  follower_->Finish();
  if (CountSkipped()) WriteRecord();
  return {LoopEnd::kDone, absl::OkStatus()};
}

bool Evaluator::MustStop() const {
  return options_.stop_requested() || (ends_at_ && clock_.SteadyNow() >= *ends_at_);
}

// `waits`: there was nothing to evaluate.
std::optional<LoopOutcome> Evaluator::RunOnce(bool& waits) {
  if (session_ == nullptr) {
    if (std::optional<LoopOutcome> failed = Prepare()) return failed;
  }
  waits = session_ == nullptr;
  if (waits) return std::nullopt;
  OpenBest();
  absl::StatusOr<std::optional<Snapshot>> next = [&] {
    // Reading may take long, because the checkpoint may be large and the volume slow. Nothing is
    // lost, because earlier evaluations are recorded.
    const ExitAtStopSignal exits(api::kExitPreempted, "the reading of a checkpoint");
    return follower_->Next(model_hash_,
                           best_ ? CheckpointParts::kModelAndOptimizer : CheckpointParts::kModel);
  }();
  if (absl::IsFailedPrecondition(next.status())) return FailedFor(next.status());
  NoteListing(next.status());
  waits = !next.ok() || !next->has_value();
  return waits ? std::nullopt : EvaluateSnapshot(*std::move(*next));
}

void Evaluator::NoteListing(const absl::Status& status) {
  if (!status.ok() && may_list_) {
    LogWarning("no checkpoint can be read now: trying again",
               {{"reason", std::string(status.message())}});
  }
  may_list_ = status.ok();
}

std::optional<LoopOutcome> Evaluator::EvaluateSnapshot(Snapshot snapshot) {
  if (absl::Status restored = RestoreModel(snapshot, *session_); !restored.ok()) {
    return FailedFor(std::move(restored));
  }
  auto evaluated = EvaluateAlone(*session_, [this] { return MustStop(); }, [this] { BatchDone(); });
  if (auto* ended = std::get_if<LoopOutcome>(&evaluated)) return std::move(*ended);
  const auto& evaluation = std::get<std::optional<Evaluation>>(evaluated);
  if (!evaluation) return std::nullopt;
  const EvaluationResult result{.step = snapshot.step,
                                .loss = evaluation->loss,
                                .metric = evaluation->accuracy,
                                .metrics = evaluation->metrics};
  // One that is evaluated after the run's last one changes neither the record nor the status.
  const bool is_latest = result.step >= last_.step;
  if (is_latest) {
    last_.step = result.step;
    last_.saved = snapshot.saved;
    last_.loss = result.loss;
    last_.metric = result.metric;
    last_.metrics = result.metrics;
    last_.top_k = training_.evaluation.top_k;
  }
  CountSkipped();
  ++evaluations_;
  Publish();
  Record(std::move(snapshot), result);
  if (is_latest) {
    Report();
    // A run that has recovered since has not diverged.
    if (auto diverged = DivergedFor(result.step, result.loss)) return diverged;
  }
  if (HasEnded() && !ends_at_) ends_at_ = clock_.SteadyNow() + kForTheOthers;
  return std::nullopt;
}

// The best checkpoint is saved before the record is written. If this process dies in between, the
// next one evaluates the same checkpoint again and finds that it is not better than the saved one.
void Evaluator::Record(Snapshot snapshot, const EvaluationResult& result) {
  nlohmann::json fields = {
      {"step", result.step},
      {"testLoss", result.loss},
      {HasAccuracy() ? "testAccuracy" : "testMeanAbsoluteError", result.metric}};
  if (!result.metrics.empty()) fields["testMetrics"] = MetricToJson(result.metrics);
  LogInfo("evaluated", fields);
  Summarize(result);
  if (best_) {
    if (const absl::Status kept = best_->Offer(std::move(snapshot), result); !kept.ok()) {
      LogError("the best checkpoint cannot be kept", {{"reason", std::string(kept.message())}});
    }
  }
  WriteRecord();
}

void Evaluator::Summarize(const EvaluationResult& result) {
  if (summaries_ == nullptr) return;
  const auto add = [this](const auto& of) {  // a result or a record
    summaries_->Scalar("test/loss", of.loss, of.step);
    summaries_->Scalar(HasAccuracy() ? "test/accuracy" : "test/mean_absolute_error", of.metric,
                       of.step);
    for (const auto& [metric, value] : of.metrics) {
      summaries_->Scalar(SummaryTagOf(metric), value, of.step);
    }
  };
  // Results of this step and later ones that an earlier process has written count no more.
  // TensorBoard drops a later step when an earlier one comes, so the latest result follows again.
  const bool is_late = result.step < last_.step;
  if (!std::exchange(has_summarized_, true) || is_late) summaries_->Begin(result.step);
  add(result);
  if (is_late) add(last_);
  if (const absl::Status status = summaries_->Flush(); !status.ok()) {
    LogWarning("TensorBoard summaries are incomplete", {{"reason", std::string(status.message())}});
  }
}

void Evaluator::WriteRecord() {
  const absl::Status written = WriteEvaluationRecord(files_, directory_, last_);
  if (!written.ok() && may_write_) {
    LogWarning(
        "the record of evaluations cannot be written: if the Evaluator is restarted, it evaluates "
        "the remaining checkpoints again",
        {{"reason", std::string(written.message())}});
  }
  may_write_ = written.ok();
}

// Once training has ended, nobody answers; then the process's termination message tells the result.
void Evaluator::Report() {
  const absl::StatusOr<LeaderAnswer> answer =
      options_.report({.step = last_.step,
                       .loss = last_.loss,
                       .metric = last_.metric,
                       .metrics = last_.metrics,
                       .misses_checkpoints = unseen_.is_told(),
                       .test_set = options_.test_set + ", loss " + loss_function_,
                       .voids_earlier = Voids()});
  const SteadyTime now = clock_.SteadyNow();
  is_reported_ = answer.ok() || (last_.step < 0 && !starts_over_);
  next_ask_ = now + (is_reported_ ? options_.ask_every : retry_in_);
  retry_in_ = is_reported_ ? options_.look_every : std::min(2 * retry_in_, options_.ask_every);
  if (!answer.ok() && may_report_ && !HasEnded()) {
    LogWarning("the leading pod does not answer now: trying again",
               {{"reason", std::string(answer.status().message())}});
  }
  may_report_ = answer.ok();
  if (!answer.ok()) return;
  leader_step_ = answer->checkpoint_step;
  const std::int64_t newest = follower_ ? follower_->newest() : last_.step;
  if (unseen_.UpdateMissing(leader_step_, newest, now)) {
    LogWarning(
        "a checkpoint that the leading pod has saved is not seen here: is checkpoint.directory "
        "on a volume that both pods mount?",
        {{"directory", directory_}, {"saved", leader_step_}, {"newestHere", newest}});
  }
  Publish();
}

// A checkpoint may come and go while one is evaluated.
void Evaluator::BatchDone() {
  ++batches_;
  const SteadyTime now = clock_.SteadyNow();
  if (now < next_look_) return;
  next_look_ = now + kBetweenLooks;
  follower_->Look().IgnoreError();            // the next Next() reports it
  if (Voids() && now >= next_ask_) Report();  // the leading pod may be a new one
  Publish();
}

void Evaluator::Publish() const {
  EvaluatorMetrics metrics{.step = last_.step,
                           .evaluations = evaluations_,
                           .batches = batches_,
                           .skipped = last_.skipped,
                           .leader_step = leader_step_};
  if (last_.step >= 0) {
    metrics.test_loss = last_.loss;
    (HasAccuracy() ? metrics.test_accuracy : metrics.test_mean_absolute_error) = last_.metric;
    metrics.test_metrics = last_.metrics;
  }
  options_.publish(metrics);
}

// Returns true if there are more.
bool Evaluator::CountSkipped() {
  const std::int64_t skipped = skipped_before_ + follower_->skipped();
  if (skipped == last_.skipped) return false;
  LogWarning("checkpoints were not evaluated: they were removed, unreadable or superseded first",
             {{"skipped", skipped - last_.skipped}, {"skippedInAll", skipped}});
  last_.skipped = skipped;
  return true;
}

}  // namespace lockstep::train
