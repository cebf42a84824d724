#include "trainer/train/reporter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "api/v1/enum_names.h"
#include "api/v1/names.h"
#include "api/v1/progress_json.h"
#include "base/log.h"
#include "trainer/backend/host_view.h"
#include "trainer/core/crc32c.h"
#include "trainer/observe/metrics_json.h"
#include "trainer/observe/termination_message.h"
#include "trainer/optim/learning_rate.h"
#include "trainer/train/evaluation_metrics.h"

namespace lockstep::train {
namespace {

constexpr auto kProgressPeriod = std::chrono::milliseconds(200);
constexpr auto kSpeedPeriod = std::chrono::seconds(1);
// TensorBoard rereads files every 30 s by default. A SIGKILL loses at most this much.
constexpr auto kSummariesPeriod = std::chrono::seconds(10);

// 0: unknown.
double UnixSeconds(Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

Reporter::Reporter(Session& session, Rendezvous& rendezvous, MetricsSender& sender,
                   const Clock& clock, const GetEnv& env)
    : session_(session),
      rendezvous_(rendezvous),
      sender_(sender),
      clock_(clock),
      meter_(clock, session.total_steps(), session.plan().StepsPerEpoch()),
      termination_message_path_(TerminationMessagePath(env(api::kEnvTerminationMessagePath))),
      metrics_(sender.initial()) {
  const api::CheckpointSpec& checkpoint = session.training().checkpoint;
  metrics_.total_steps = session.total_steps();
  metrics_.stage = session.stage().index;
  if (!checkpoint.directory.empty()) metrics_.checkpoint_interval = checkpoint.every_steps;
  Publish();
}

void Reporter::SetEvaluation(const auto& of) {
  metrics_.test_metrics = NamedOf(of.test_metrics);
  meter_.SetEvaluation(of.test_loss, of.test_accuracy, metrics_.test_metrics);
  metrics_.test_loss = of.test_loss;
  (HasAccuracy() ? metrics_.test_accuracy : metrics_.test_mean_absolute_error) = of.test_accuracy;
}

nlohmann::json Reporter::EvaluationFields(std::int64_t step, const auto& of) const {
  nlohmann::json fields = {
      {"step", step},
      {"testLoss", of.test_loss},
      {NameOfMetric("testAccuracy", "testMeanAbsoluteError"), of.test_accuracy}};
  const api::TestMetrics named = NamedOf(of.test_metrics);
  if (!named.empty()) fields["testMetrics"] = MetricToJson(named);
  return fields;
}

void Reporter::GenerationStarted(const Membership& membership, const std::string& communicator,
                                 const RunState& state) {
  rank_ = membership.rank;
  if (membership.world() > 1) {  // else they are the process' place in its job, and the job's size
    metrics_.rank = rank_;
    metrics_.world = membership.world();
  }
  metrics_.generations += 1;
  metrics_.first_step = state.step;
  generation_ = membership.generation;
  first_step_of_generation_ = true;
  meter_.ExcludeTimeSinceLastMark();
  meter_.Restore(state.step, state.sums);
  // Where an Evaluator evaluates, these do not, and what a checkpoint holds is not its last result.
  const bool evaluates = session_.training().evaluation.enabled;
  if (evaluates && state.evaluated_step >= 0) {
    SetEvaluation(state);
  }
  SetTotalSteps(state);
  step_began_ = clock_.SteadyNow();
  nlohmann::json fields = {{"generation", generation_},
                           {"rank", rank_},
                           {"world", membership.world()},
                           {"communicator", communicator},
                           {"device", session_.backend().Device()},
                           {"step", state.step},
                           {"totalSteps", session_.total_steps()}};
  if (session_.stage().count > 1) {
    fields["stage"] = session_.stage().index;
    fields["stages"] = session_.stage().count;
  }
  if (session_.shares_updates()) {
    fields["sharding"] = std::string(api::NameOf(api::Sharding::kZero1));
  } else if (session_.update_site() != UpdateSite::kEveryRank) {
    fields["updatedBy"] = "rank 0";
  }
  LogInfo("the generation has started", fields);
  if (IsRankZero() && summaries_ == nullptr) {
    summaries_ = OpenSummaries(session_.training().summaries.directory);
  }
  if (IsRankZero() && summaries_ != nullptr) summaries_->Begin(state.step + 1);
  PublishState(state);
}

void Reporter::Joined(const Membership& membership) {
  rank_ = metrics_.rank;
  metrics_.generations += 1;
  generation_ = membership.generation;
  first_step_of_generation_ = true;
  Publish();
}

void Reporter::StepDone(const StepTotals& totals, const RunState& state) {
  CountStep(state.step - 1);
  StepRecorded(totals, state);
}

void Reporter::StepRecorded(const StepTotals& totals, const RunState& state, std::int64_t left) {
  const SteadyTime now = clock_.SteadyNow();
  const Duration took = (now - step_began_) / left;
  if (IsRankZero()) {
    metrics_.step_seconds.Observe(std::chrono::duration<double>(took).count());
  }
  step_began_ += took;
  meter_.AddStep({.examples = totals.skipped ? 0 : static_cast<std::int64_t>(totals.examples),
                  .loss = totals.loss,
                  .correct = totals.correct});
  metrics_.gradient_norm = totals.gradient_norm;
  if (totals.skipped) StepSkipped(state);
  const bool is_first = std::exchange(first_step_of_generation_, false);
  if (is_first) {
    LogInfo("first step of the generation", {{"generation", generation_}, {"step", state.step}});
  }
  if (summaries_ != nullptr && IsRankZero() && !totals.skipped) WriteSummaries(totals, state);
  if (now >= next_progress_) {
    next_progress_ = now + kProgressPeriod;
    SendProgress();
  }
  if (now >= next_speed_) {
    next_speed_ = now + kSpeedPeriod;
    UpdateSpeed();
  }
  PublishState(state);
  // Tells the supervisor that a restart has made progress, in case this process dies before the
  // next periodic line.
  if (is_first) sender_.SendNow();
  if (now >= next_summaries_) {
    next_summaries_ = now + kSummariesPeriod;
    FlushSummaries();
  }
}

void Reporter::StepSkipped(const RunState& state) const {
  if (!IsRankZero()) return;
  LogWarning("the loss or a gradient is not finite: the step has updated nothing",
             {{"step", state.step},
              {"skippedInARow", state.skipped_in_a_row},
              {"maxSkippedSteps", session_.training().max_skipped_steps}});
}

void Reporter::CountStep(std::int64_t step) {
  metrics_.steps_total += 1;
  // A pipeline's samples count once.
  if (session_.stage().is_first()) {
    const Slice share = RankSlice(session_.plan(), step, rank_ / session_.stage().count);
    metrics_.examples_total += share.end - share.begin;
  }
  if (session_.plan().world > 1) {
    metrics_.all_reduce_bytes +=
        static_cast<std::int64_t>(session_.buffer().size() * sizeof(float));
  }
}

void Reporter::BatchCounted(std::uint64_t fence, std::int64_t step, std::int64_t examples) {
  metrics_.steps_total += 1;
  metrics_.examples_total += examples;
  if (IsRankZero()) {  // the run's own step follows, by StepRecorded
    Publish();
    return;
  }
  if (std::exchange(fence_, fence) != fence) {  // of values that were loaded since
    metrics_.first_step = metrics_.step = step;
  }
  // The step of a worker that has left may be lower than its own last one; it is done only once.
  metrics_.step = std::max(metrics_.step, step + 1);
  Publish();
  if (!std::exchange(first_step_of_generation_, false)) return;
  LogInfo("first batch of the generation", {{"generation", generation_}, {"step", step}});
  sender_.SendNow();  // as in StepRecorded
}

void Reporter::WriteSummaries(const StepTotals& totals, const RunState& state) {
  const std::int64_t every = session_.training().summaries.every_steps;
  if (state.step % every != 0 && state.step != session_.total_steps()) return;
  summaries_->Scalar("train/loss", totals.loss / totals.examples, state.step);
  summaries_->Scalar(NameOfMetric("train/accuracy", "train/mean_absolute_error"),
                     totals.correct / totals.examples, state.step);
  summaries_->Scalar("train/learning_rate", Rate(state.step - 1), state.step);
  summaries_->Scalar("train/gradient_norm", totals.gradient_norm, state.step);
  summaries_->Scalar("train/examples_per_second", meter_.RecentExamplesPerSecond(), state.step);
}

double Reporter::Rate(std::int64_t step) const {
  const api::TrainingSpec& training = session_.training();
  return LearningRateAt(training.learning_rate_schedule, training.optimizer.learning_rate, step,
                        session_.total_steps());
}

void Reporter::EpochDone(const RunState& state) {
  if (!IsRankZero()) return;
  const auto examples = static_cast<double>(state.sums.examples);
  LogInfo("epoch done",
          {{"epoch", session_.plan().Epoch(state.step)},
           {"step", state.step},
           {"loss", state.sums.loss / examples},
           {NameOfMetric("accuracy", "meanAbsoluteError"), state.sums.correct / examples},
           {"samples", state.sums.examples},
           {"samplesLost", state.ledger.lost_total()},
           {"samplesDuplicated", state.ledger.duplicated_total()}});
}

bool Reporter::EndsBeforeLastStep(const RunState& state) const {
  return HasStoppedEarly(session_.training(), state) && state.step < session_.total_steps();
}

// A run that has stopped early is done: its last step is the last of all.
void Reporter::SetTotalSteps(const RunState& state) {
  metrics_.total_steps = EndsBeforeLastStep(state) ? state.step : session_.total_steps();
  meter_.SetTotalSteps(metrics_.total_steps);
}

void Reporter::RunDone(const RunState& state) {
  if (IsRankZero() && EndsBeforeLastStep(state)) {
    LogInfo("the run has stopped early: its evaluations improve no more",
            {{"step", state.step},
             {"plannedSteps", session_.total_steps()},
             {"metric", std::string(api::NameOf(state.best.metric))},
             {"bestStep", state.best.step},
             {"best", state.best.value},
             {"evaluationsWithoutImprovement", state.best.without_improvement}});
  }
  if (RestoresBest(session_.training(), state)) ReportBest(state.best);
  Backend& backend = session_.backend();
  HostView parameters(backend, session_.model().parameters());
  std::uint32_t checksum = Crc32c(std::as_bytes(parameters.floats()));
  // Covers what all ranks hold, so that their checksums compare.
  const int slots = session_.shares_updates() ? 0 : session_.optimizer().slots();
  for (int i = 0; i < slots; ++i) {
    HostView slot(backend, session_.optimizer().slot(i));
    checksum = ExtendCrc32c(checksum, std::as_bytes(slot.floats()));
  }
  LogInfo("the run is done", {{"rank", rank_}, {"step", state.step}, {"checksum", checksum}});
}

// What the run ends with is not what was evaluated last.
void Reporter::ReportBest(const BestEvaluation& best) {
  SetEvaluation(best);
  Publish();
  if (!IsRankZero()) return;
  LogInfo("the run ends with the model of its best evaluation", EvaluationFields(best.step, best));
  SendProgress();
}

void Reporter::BatchEvaluated() {
  metrics_.evaluation_batches += 1;
  Publish();
}

void Reporter::Evaluated(const RunState& state) {
  meter_.ExcludeTimeSinceLastMark();
  step_began_ = clock_.SteadyNow();
  SetEvaluation(state);
  SetTotalSteps(state);
  Publish();
  if (!IsRankZero()) return;
  LogInfo("evaluated", EvaluationFields(state.step, state));
  if (summaries_ != nullptr) {
    summaries_->Scalar("test/loss", state.test_loss, state.step);
    summaries_->Scalar(NameOfMetric("test/accuracy", "test/mean_absolute_error"),
                       state.test_accuracy, state.step);
    for (const auto& [metric, value] : NamedOf(state.test_metrics)) {
      summaries_->Scalar(SummaryTagOf(metric), value, state.step);
    }
    FlushSummaries();
  }
  SendProgress();
}

void Reporter::Restored(std::int64_t step, Time saved) {
  LogInfo("restored a checkpoint", {{"step", step}});
  CheckpointFound(step, saved);
}

void Reporter::CheckpointFound(std::int64_t step, Time saved) {
  meter_.SetCheckpoint(step);
  metrics_.last_checkpoint_step = step;
  metrics_.last_checkpoint_time = UnixSeconds(saved);
  Publish();
}

void Reporter::CheckpointOutcome(const AsyncSaver::Outcome& outcome) {
  const bool failed = outcome.failures > metrics_.checkpoint_failures;
  metrics_.checkpoint_failures = outcome.failures;
  metrics_.checkpoint_durations = outcome.durations;
  metrics_.checkpoint_bytes = outcome.last_saved_bytes;
  if (failed) Publish();
  if (outcome.saves == saves_logged_) return;  // not by the step: a run may have gone back
  saves_logged_ = outcome.saves;
  metrics_.last_checkpoint_step = outcome.last_saved_step;
  metrics_.last_checkpoint_time = UnixSeconds(clock_.Now());
  meter_.SetCheckpoint(outcome.last_saved_step);
  LogInfo("saved a checkpoint",
          {{"step", outcome.last_saved_step}, {"folder", outcome.last_saved_folder}});
  Publish();
}

void Reporter::Flush(const RunState& state) {
  UpdateSpeed();
  PublishState(state);
  sender_.SendNow();
  SendProgress();
  FlushSummaries();
}

void Reporter::Diverged() {
  metrics_.diverged = 1;
  metrics_.total_steps = metrics_.step;  // as of a run that has stopped early
  metrics_.remaining_seconds = 0;
  Publish();
  sender_.SendNow();
}

void Reporter::FlushSummaries() {
  if (summaries_ == nullptr) return;
  if (const absl::Status status = summaries_->Flush(); !status.ok()) {
    LogWarning("TensorBoard summaries are incomplete", {{"reason", std::string(status.message())}});
  }
}

void Reporter::LeaveMessage() {
  if (generation_ == 0 || !IsRankZero()) return;
  LeaveTerminationMessage(termination_message_path_, api::ProgressToJson(GetProgress()).dump());
}

api::Progress Reporter::GetProgress() {
  api::Progress progress = meter_.Get();
  if (!HasAccuracy()) {
    progress.mean_absolute_error = std::exchange(progress.accuracy, std::nullopt);
    progress.test_mean_absolute_error = std::exchange(progress.test_accuracy, std::nullopt);
  }
  if (metrics_.samples_lost != 0) progress.samples_lost = metrics_.samples_lost;
  if (metrics_.samples_duplicated != 0) progress.samples_duplicated = metrics_.samples_duplicated;
  const Duration life = clock_.SteadyNow() - sender_.phases().began();
  if (life > Duration::zero()) {
    progress.goodput = std::chrono::duration<double>(sender_.phases().TrainingTime()) /
                       std::chrono::duration<double>(life);
  }
  return progress;
}

void Reporter::SendProgress() {
  if (IsRankZero()) rendezvous_.Report(GetProgress());
}

void Reporter::UpdateSpeed() {
  metrics_.examples_per_second = meter_.RecentExamplesPerSecond();
  metrics_.remaining_seconds = meter_.Get().estimated_remaining_seconds.value_or(std::nan(""));
}

void Reporter::PublishState(const RunState& state) {
  const auto examples = static_cast<double>(state.sums.examples);
  metrics_.step = state.step;
  metrics_.epoch =
      static_cast<double>(state.step) / static_cast<double>(session_.plan().StepsPerEpoch());
  metrics_.loss = state.sums.loss / examples;  // NaN before there are any
  (HasAccuracy() ? metrics_.accuracy : metrics_.mean_absolute_error) =
      state.sums.correct / examples;
  metrics_.learning_rate = Rate(std::max<std::int64_t>(0, state.step - 1));  // as the summary's
  metrics_.skipped_steps = state.skipped_steps;
  metrics_.samples_lost = state.ledger.lost_total();
  metrics_.samples_duplicated = state.ledger.duplicated_total();
  Publish();
}

void Reporter::Publish() {
  sender_.Publish(metrics_, sender_.phases().TrainingTime());
}

}  // namespace lockstep::train
