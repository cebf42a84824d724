#include "trainer/train/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "api/v1/names.h"
#include "base/descriptor.h"
#include "tests/support/fake_clock.h"
#include "tests/support/local_rendezvous.h"
#include "tests/support/temp_directory.h"

namespace lockstep::train {
namespace {

using std::chrono::milliseconds;

// 70 samples in steps of 16: four full steps and one of 6 samples. Each of the two ranks has half
// of every step.
api::TrainingSpec SmallTraining() {
  api::TrainingSpec training;
  training.model.layers =
      api::Json::array({{{"type", "Flatten"}}, {{"type", "Dense"}, {"units", 3}}});
  training.dataset.format = api::DatasetFormat::kSynthetic;
  training.dataset.synthetic = api::SyntheticSpec{
      .train_examples = 70, .test_examples = 33, .shape = {1, 8, 8}, .classes = 3};
  training.batch_size.global = 16;
  training.epochs = 4;
  return training;
}

// A reporter of one of two ranks, and the supervisor's end of its pipe.
class ReporterTest : public ::testing::Test {
 protected:
  explicit ReporterTest(int rank = 0, const api::TrainingSpec& training = SmallTraining()) {
    Pipe pipe = *MakePipe();
    reader_ = std::make_unique<MetricsPipeReader>(std::move(pipe.read));
    write_end_ = std::move(pipe.write);
    const std::string fd = std::to_string(write_end_.fd());
    session_ = *Session::Create({.training = training, .world = 2, .backend = "reference"});
    strategy_ = MakeCollectiveStrategy(session_->buffer(), {.bind_address = "127.0.0.1"});
    rendezvous_ = hub_.Client(rank);
    const auto env = [fd](const std::string& name) {
      return name == kEnvMetricsFd ? std::optional(fd) : std::nullopt;
    };
    sender_ = std::make_unique<MetricsSender>(clock_, env, rank, 2, std::chrono::hours(1));
    reporter_ = std::make_unique<Reporter>(*session_, *rendezvous_, *sender_, clock_, env);
    state_.step = 0;
    reporter_->GenerationStarted({.generation = 1, .rank = rank, .members = {{}, {}}}, *strategy_,
                                 state_);
  }

  void Step(milliseconds takes) {
    clock_.Advance(takes);
    const StepTotals totals{
        .loss = 1,
        .examples = static_cast<double>(session_->plan().GlobalExamples(state_.step)),
        .gradient_norm = 0.5};
    ApplyStep(totals, session_->plan(), state_);
    reporter_->StepDone(totals, state_);
  }

  ReplicaMetrics LastLine() {
    sender_->SendNow();
    const auto lines = reader_->Lines();
    EXPECT_FALSE(lines.empty());
    const auto metrics = DecodeMetrics(lines.empty() ? "" : lines.back());
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    return metrics.ok() ? *metrics : ReplicaMetrics{};
  }

  lockstep::testing::FakeClock clock_;
  LocalRendezvousHub hub_{2};
  std::unique_ptr<Session> session_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<MetricsPipeReader> reader_;
  Descriptor write_end_;
  std::unique_ptr<MetricsSender> sender_;
  std::unique_ptr<Reporter> reporter_;
  RunState state_;
};

class SummariesReporterTest : public ReporterTest {
 protected:
  SummariesReporterTest() : SummariesReporterTest(std::make_unique<TempDirectory>()) {}
  std::string Summaries() const {
    return ReadTextFile(std::filesystem::directory_iterator(folder_->path())->path());
  }

 private:
  explicit SummariesReporterTest(std::unique_ptr<TempDirectory> folder)
      : ReporterTest(0, WithSummaries(folder->path())), folder_(std::move(folder)) {}
  static api::TrainingSpec WithSummaries(const std::string& directory) {
    api::TrainingSpec training = SmallTraining();
    training.summaries.directory = directory;
    training.summaries.every_steps = 1;
    return training;
  }
  const std::unique_ptr<TempDirectory> folder_;
};

// A reader of the file drops these steps.
TEST_F(SummariesReporterTest, TheSummariesOfARunThatHasGoneBackSayAtWhichStepItGoesOn) {
  constexpr char kStartAtOne[] = "\x10\x01\x3a\x02\x08\x01",
                 kStartAtThree[] = "\x10\x03\x3a\x02\x08\x01";
  for (int i = 0; i < 4; ++i) Step(milliseconds(20));
  reporter_->Flush(state_);
  EXPECT_THAT(Summaries(), ::testing::HasSubstr(kStartAtOne));
  EXPECT_THAT(Summaries(), ::testing::Not(::testing::HasSubstr(kStartAtThree)));
  state_.step = 2;
  reporter_->GenerationStarted({.generation = 2, .rank = 0, .members = {{}, {}}}, *strategy_,
                               state_);
  reporter_->Flush(state_);
  EXPECT_THAT(Summaries(), ::testing::HasSubstr(kStartAtThree));
}

class SecondRankReporterTest : public ReporterTest {
 protected:
  SecondRankReporterTest() : ReporterTest(1) {}
};

// Its last result is later than what a checkpoint holds, which may even be of another job.
TEST_F(ReporterTest, WhereAnEvaluatorEvaluatesARestoredEvaluationIsNotReported) {
  state_.evaluated_step = 5;
  state_.test_loss = 0.5;
  state_.test_accuracy = 0.75;
  const Membership next{.generation = 2, .rank = 0, .members = {{}, {}}};
  reporter_->GenerationStarted(next, *strategy_, state_);
  EXPECT_EQ(LastLine().test_accuracy, 0.75);
  api::TrainingSpec training = SmallTraining();
  training.evaluation.enabled = false;  // what the others are told beside an Evaluator
  const auto session = *Session::Create({.training = training, .world = 2, .backend = "reference"});
  Reporter beside(*session, *rendezvous_, *sender_, clock_,
                  [](const std::string&) { return std::nullopt; });
  beside.GenerationStarted(next, *strategy_, state_);
  EXPECT_TRUE(std::isnan(LastLine().test_accuracy));
  EXPECT_TRUE(std::isnan(LastLine().test_loss));
}

TEST_F(ReporterTest, ARankCountsItsOwnShareOfTheSamples) {
  for (int i = 0; i < 5; ++i) Step(milliseconds(10));
  EXPECT_EQ(LastLine().examples_total, 4 * 8 + 3);  // of an epoch's 70
}

TEST_F(ReporterTest, TheLeadingRankTimesItsSteps) {
  for (int i = 0; i < 3; ++i) Step(milliseconds(20));
  clock_.Advance(std::chrono::seconds(30));
  reporter_->Evaluated(state_);  // the 30 s are not part of the next step's time
  Step(milliseconds(200));
  const DurationHistogram histogram = LastLine().step_seconds;
  EXPECT_EQ(histogram.counts[4], 3);  // up to 25 ms
  EXPECT_EQ(histogram.counts[7], 1);  // up to 250 ms
  EXPECT_NEAR(histogram.sum, 0.26, 1e-9);
}

TEST_F(SecondRankReporterTest, OtherRanksDoNotTimeSteps) {
  Step(milliseconds(20));
  EXPECT_EQ(LastLine().step_seconds.sum, 0);
}

// So a process that dies soon afterwards still counts as having made progress.
TEST_F(ReporterTest, TheFirstStepOfAGenerationIsSentAtOnce) {
  reader_->Lines();
  Step(milliseconds(10));
  const auto lines = reader_->Lines();
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(DecodeMetrics(lines.back())->step, 1);
  Step(milliseconds(10));
  EXPECT_TRUE(reader_->Lines().empty());
}

TEST_F(ReporterTest, GoodputCountsTheTimeOfStepsButNotOfCheckpoints) {
  for (int i = 0; i < 5; ++i) {
    sender_->phases().Switch(Phase::kForward);
    clock_.Advance(milliseconds(300));
    sender_->phases().Switch(Phase::kCheckpoint);
    clock_.Advance(milliseconds(700));
    sender_->phases().Switch(Phase::kIdle);
    Step(milliseconds(0));
  }
  EXPECT_DOUBLE_EQ(LastLine().goodput, 0.3);
  const TempDirectory folder;
  const std::string path = folder.path() + "/message";
  Reporter last(*session_, *rendezvous_, *sender_, clock_, [&path](const std::string& name) {
    return name == api::kEnvTerminationMessagePath ? std::optional(path) : std::nullopt;
  });
  last.GenerationStarted({.generation = 1, .rank = 0, .members = {{}, {}}}, *strategy_, state_);
  last.LeaveMessage();
  std::ifstream file(path);
  const std::string message{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(message, ::testing::HasSubstr("\"goodput\":0.3")) << message;
}

// A process without a generation does not know its rank, and the job may have ended without it.
TEST_F(ReporterTest, WithoutAGenerationThereIsNoMessage) {
  const TempDirectory folder;
  const std::string path = folder.At("message");
  Reporter unused(*session_, *rendezvous_, *sender_, clock_, [&path](const std::string& name) {
    return name == api::kEnvTerminationMessagePath ? std::optional(path) : std::nullopt;
  });
  unused.LeaveMessage();
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Under the strategy ParameterServer, the process is the only member of its rendezvous.
TEST_F(SecondRankReporterTest, AGenerationOfOneMemberLeavesThePlaceInTheJob) {
  reporter_->GenerationStarted({.generation = 2, .rank = 0, .members = {{}}}, "grpc", state_);
  EXPECT_EQ(LastLine().rank, 1);
  EXPECT_EQ(LastLine().world, 2);
}

TEST_F(ReporterTest, StepsInQuickSuccessionAreAllReported) {
  for (int i = 0; i < 5; ++i) Step(milliseconds(0));
  EXPECT_EQ(LastLine().step, 5);
  EXPECT_EQ(LastLine().steps_total, 5);
}

TEST_F(ReporterTest, TheRunsStateIsReportedBeforeTheFirstStep) {
  EXPECT_EQ(LastLine().generations, 1);
  EXPECT_EQ(LastLine().world, 2);
  EXPECT_EQ(LastLine().total_steps, 20);
  state_.step = 12;
  state_.sums = {.examples = 10, .loss = 5, .correct = 4};
  reporter_->GenerationStarted({.generation = 2, .rank = 0, .members = {{}, {}}}, *strategy_,
                               state_);
  const ReplicaMetrics line = LastLine();
  EXPECT_EQ(line.step, 12);
  EXPECT_EQ(line.loss, 0.5);
  EXPECT_EQ(line.steps_total, 0);
}

// So the supervisor of a process that dies again and again sees that each life made progress.
TEST_F(SecondRankReporterTest, ABatchOfAProcessThatDoesNotKnowTheRunsStateIsProgress) {
  reporter_->Joined({.generation = 5, .rank = 0, .members = {{}}});
  reader_->Lines();
  reporter_->BatchCounted(/*fence=*/1, /*step=*/11, /*examples=*/16);
  const auto lines = reader_->Lines();
  ASSERT_FALSE(lines.empty()) << "the first is sent at once";
  EXPECT_EQ(DecodeMetrics(lines.back())->step, 12);
  reporter_->BatchCounted(1, 14, 6);
  const ReplicaMetrics line = LastLine();
  EXPECT_EQ(line.step, 15);
  EXPECT_EQ(line.steps_total, 2);
  EXPECT_EQ(line.examples_total, 22);
  EXPECT_EQ(line.generations, 2);
}

TEST_F(ReporterTest, TheLeadingProcessesOwnBatchIsNotTheFirstStepOfTheGeneration) {
  reporter_->BatchCounted(/*fence=*/1, /*step=*/0, /*examples=*/16);
  reader_->Lines();
  ApplyStep({.loss = 1, .examples = 16}, session_->plan(), state_);
  reporter_->StepRecorded({.loss = 1, .examples = 16}, state_);
  const auto lines = reader_->Lines();
  ASSERT_FALSE(lines.empty()) << "the first step is sent at once";
  EXPECT_EQ(DecodeMetrics(lines.back())->step, 1);
}

TEST_F(ReporterTest, AStepOfOtherProcessesIsNotItsOwn) {
  ApplyStep({.loss = 1, .examples = 16}, session_->plan(), state_);
  reporter_->StepRecorded({.loss = 1, .examples = 16}, state_);
  reporter_->BatchCounted(1, 0, 5);
  const ReplicaMetrics line = LastLine();
  EXPECT_EQ(line.step, 1);
  EXPECT_EQ(line.steps_total, 1);
  EXPECT_EQ(line.examples_total, 5);
}

// A step that a worker returned is done late, and no step is done again.
TEST_F(SecondRankReporterTest, OnlyNewValuesMakeAStepLowerThanItWas) {
  reporter_->BatchCounted(/*fence=*/1, /*step=*/14, /*examples=*/16);
  reporter_->BatchCounted(1, 12, 16);
  EXPECT_EQ(LastLine().step, 15);
  EXPECT_EQ(LastLine().first_step, 14);
  reporter_->BatchCounted(/*fence=*/2, 9, 16);
  EXPECT_EQ(LastLine().step, 10);
  EXPECT_EQ(LastLine().first_step, 9);
}

TEST_F(ReporterTest, StepsThatAreHeardOfAtOnceShareTheTimeSinceTheLast) {
  clock_.Advance(std::chrono::seconds(2));
  for (const int left : {4, 3, 2, 1}) {
    const StepTotals totals{.loss = 1, .examples = 16};
    ApplyStep(totals, session_->plan(), state_);
    reporter_->StepRecorded(totals, state_, left);
  }
  const DurationHistogram histogram = LastLine().step_seconds;
  EXPECT_EQ(histogram.counts[8], 4);  // up to 500 ms
  EXPECT_EQ(histogram.sum, 2);
}

TEST_F(ReporterTest, EvaluatedBatchesAreCounted) {
  for (int i = 0; i < 3; ++i) reporter_->BatchEvaluated();
  EXPECT_EQ(LastLine().evaluation_batches, 3);
}

// If the last replica is lost after the final evaluation, its replacement does not evaluate again.
TEST_F(ReporterTest, ARestoredEvaluationIsReported) {
  const TempDirectory folder;
  const std::string path = folder.path() + "/message";
  Reporter restored(*session_, *rendezvous_, *sender_, clock_, [&path](const std::string& name) {
    return name == api::kEnvTerminationMessagePath ? std::optional(path) : std::nullopt;
  });
  state_.step = 20;
  state_.evaluated_step = 20;
  state_.test_loss = 0.25;
  state_.test_accuracy = 0.9;
  restored.GenerationStarted({.generation = 1, .rank = 0, .members = {{}, {}}}, *strategy_, state_);
  restored.Flush(state_);
  restored.LeaveMessage();
  std::ifstream file(path);
  const std::string message{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(message, ::testing::HasSubstr("\"testAccuracy\":0.9")) << message;
}

// The process ends with the last epoch, before anybody could scrape what its ledger says.
class StoppingReporterTest : public ReporterTest, public ::testing::WithParamInterface<int> {
 protected:
  StoppingReporterTest() : ReporterTest(/*rank=*/GetParam(), Training()) {}

 private:
  static api::TrainingSpec Training() {
    api::TrainingSpec training = SmallTraining();
    training.early_stopping.emplace();
    return training;
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, StoppingReporterTest, ::testing::Values(0, 1));

// Alerts take a rank whose step is below the total for one that has yet to train.
TEST_P(StoppingReporterTest, ARunThatHasStoppedEarlyIsAtItsLastStep) {
  for (int i = 0; i < 5; ++i) Step(milliseconds(100));
  state_.evaluated_step = 5;
  reporter_->Evaluated(state_);
  EXPECT_EQ(LastLine().total_steps, 20);
  state_.best = {.step = 5, .value = 1, .without_improvement = 1};
  reporter_->Evaluated(state_);
  EXPECT_EQ(LastLine().total_steps, 5);
  EXPECT_EQ(LastLine().step, 5);
  state_.best.without_improvement = 0;  // the run has gone back
  reporter_->GenerationStarted({.generation = 2, .rank = GetParam(), .members = {{}, {}}},
                               *strategy_, state_);
  EXPECT_EQ(LastLine().total_steps, 20);
}

// Its series stay as long as other variants of its pod train, and are added to theirs.
TEST_F(ReporterTest, AVariantThatHasDivergedIsAtItsLastStep) {
  for (int i = 0; i < 5; ++i) Step(milliseconds(400));
  reporter_->Flush(state_);
  EXPECT_EQ(LastLine().total_steps, 20);
  EXPECT_GT(LastLine().remaining_seconds, 0);
  reader_->Lines();
  reporter_->Diverged();
  const auto lines = reader_->Lines();
  ASSERT_FALSE(lines.empty()) << "the process ends now";
  const auto line = DecodeMetrics(lines.back());
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->diverged, 1);
  EXPECT_EQ(line->step, 5);
  EXPECT_EQ(line->total_steps, 5);
  EXPECT_EQ(line->remaining_seconds, 0);
}

class BestReporterTest : public ReporterTest {
 protected:
  BestReporterTest() : ReporterTest(/*rank=*/0, Training()) {}

 private:
  static api::TrainingSpec Training() {
    api::TrainingSpec training = SmallTraining();
    training.early_stopping = api::EarlyStoppingSpec{.patience = 3, .restore_best = true};
    return training;
  }
};

TEST_F(BestReporterTest, TheLastEvaluationThatARunReportsIsThatOfTheModelItEndsWith) {
  for (int i = 0; i < 20; ++i) Step(milliseconds(100));
  state_.evaluated_step = 20;
  state_.test_loss = 3;
  state_.test_accuracy = 0.25;
  state_.best = {.step = 5, .value = 2, .test_loss = 2, .test_accuracy = 0.5};
  reporter_->Evaluated(state_);
  EXPECT_EQ(LastLine().test_loss, 3);
  ::testing::internal::CaptureStderr();
  reporter_->RunDone(state_);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ::testing::HasSubstr("the run ends with the model of its best evaluation"));
  EXPECT_EQ(LastLine().test_loss, 2);
  EXPECT_EQ(LastLine().test_accuracy, 0.5);
}

TEST_F(ReporterTest, LostSamplesOfTheLastEpochAreInTheMessage) {
  const TempDirectory folder;
  const std::string path = folder.path() + "/message";
  Reporter last(*session_, *rendezvous_, *sender_, clock_, [&path](const std::string& name) {
    return name == api::kEnvTerminationMessagePath ? std::optional(path) : std::nullopt;
  });
  state_.step = 20;
  last.GenerationStarted({.generation = 1, .rank = 0, .members = {{}, {}}}, *strategy_, state_);
  state_.ledger.Add(60, 0);
  state_.ledger.Check(70);
  last.Flush(state_);
  last.LeaveMessage();
  std::ifstream file(path);
  const std::string message{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(message, ::testing::HasSubstr("\"samplesLost\":10")) << message;
  EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr("samplesDuplicated"))) << message;
}

api::TrainingSpec SmallRegression() {
  api::TrainingSpec training = SmallTraining();
  training.model.layers =
      api::Json::array({{{"type", "Flatten"}}, {{"type", "Dense"}, {"units", 1}}});
  training.loss.type = api::LossType::kMeanSquaredError;
  return training;
}

api::TrainingSpec WithTopK() {
  api::TrainingSpec training = SmallTraining();
  training.evaluation = {.metrics = {api::TestMetric::kTopKCategoricalAccuracy}, .top_k = 2};
  return training;
}

class NamedMetricsReporterTest : public ReporterTest {
 protected:
  NamedMetricsReporterTest() : ReporterTest(0, WithTopK()) {}
};

TEST_F(NamedMetricsReporterTest, AreInTheLogAndTheMetricsAfterAnEvaluation) {
  EXPECT_TRUE(LastLine().test_metrics.empty());
  const api::TestMetrics found = {{api::TestMetric::kTopKCategoricalAccuracy, 0.75}};
  state_.test_metrics = {found, session_->training().evaluation};
  ::testing::internal::CaptureStderr();
  reporter_->Evaluated(state_);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr(R"("testMetrics":{"TopKCategoricalAccuracy":0.75})"));
  EXPECT_EQ(LastLine().test_metrics, found);
}

class RegressionReporterTest : public ReporterTest {
 protected:
  RegressionReporterTest() : ReporterTest(0, SmallRegression()) {}
};

TEST_F(RegressionReporterTest, TheErrorIsReportedAndNoAccuracy) {
  const TempDirectory folder;
  const std::string path = folder.At("message");
  Reporter last(*session_, *rendezvous_, *sender_, clock_, [&path](const std::string& name) {
    return name == api::kEnvTerminationMessagePath ? std::optional(path) : std::nullopt;
  });
  state_.step = 20;
  state_.sums = {.examples = 10, .loss = 5, .correct = 4};
  state_.evaluated_step = 20;
  state_.test_accuracy = 0.75;
  last.GenerationStarted({.generation = 1, .rank = 0, .members = {{}, {}}}, *strategy_, state_);
  const ReplicaMetrics line = LastLine();
  EXPECT_EQ(line.mean_absolute_error, 0.4);
  EXPECT_EQ(line.test_mean_absolute_error, 0.75);
  EXPECT_TRUE(std::isnan(line.accuracy) && std::isnan(line.test_accuracy));
  last.LeaveMessage();
  std::ifstream file(path);
  const std::string message{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(message, ::testing::HasSubstr("\"meanAbsoluteError\":0.4")) << message;
  EXPECT_THAT(message, ::testing::HasSubstr("\"testMeanAbsoluteError\":0.75")) << message;
  EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr("ccuracy"))) << message;
}

TEST_F(ReporterTest, TheGradientNormOfTheLatestStepIsReported) {
  Step(milliseconds(10));
  EXPECT_EQ(LastLine().gradient_norm, 0.5);
}

class ScheduleReporterTest : public ReporterTest {
 protected:
  ScheduleReporterTest() : ReporterTest(0, Training()) {}
  static api::TrainingSpec Training() {
    api::TrainingSpec training = SmallTraining();
    training.optimizer.learning_rate = 0.5;
    training.learning_rate_schedule = {
        .type = api::ScheduleType::kStep, .factor = 0.1, .every_steps = 2};
    return training;
  }
};

TEST_F(ScheduleReporterTest, TheLearningRateIsThatOfTheLatestStep) {
  EXPECT_DOUBLE_EQ(LastLine().learning_rate, 0.5) << "before the first step, that step's";
  Step(milliseconds(10));
  EXPECT_DOUBLE_EQ(LastLine().learning_rate, 0.5);
  Step(milliseconds(10));
  EXPECT_DOUBLE_EQ(LastLine().learning_rate, 0.5) << "the next step's is smaller";
  Step(milliseconds(10));
  EXPECT_DOUBLE_EQ(LastLine().learning_rate, 0.05);
}

TEST_F(ReporterTest, CheckpointsAreReportedWithDurationSizeAndFailures) {
  AsyncSaver::Outcome outcome{.status = absl::ResourceExhaustedError("disk full"),
                              .last_saved_step = 3,
                              .last_saved_folder = "step-3",
                              .saves = 1,
                              .failures = 1,
                              .durations = {},
                              .last_saved_bytes = 4096};
  outcome.durations.Observe(2);
  reporter_->CheckpointOutcome(outcome);
  const ReplicaMetrics line = LastLine();
  EXPECT_EQ(line.checkpoint_failures, 1);
  EXPECT_EQ(line.checkpoint_bytes, 4096);
  EXPECT_EQ(line.checkpoint_durations.sum, 2);
  EXPECT_EQ(line.last_checkpoint_step, 3);
}

// As of parameter servers that have lost their values after step 5, of which the checkpoint is
// damaged.
TEST_F(ReporterTest, ASaveOfARunThatHasGoneBackIsReported) {
  AsyncSaver::Outcome outcome{.last_saved_step = 5, .last_saved_folder = "step-5", .saves = 1};
  reporter_->CheckpointOutcome(outcome);
  outcome.last_saved_step = 3;
  outcome.saves = 2;
  reporter_->CheckpointOutcome(outcome);
  EXPECT_EQ(LastLine().last_checkpoint_step, 3);
}

TEST_F(ReporterTest, AFailedSaveIsReportedThoughNoneHasEverSucceeded) {
  ::testing::internal::CaptureStderr();
  reporter_->CheckpointOutcome({.status = absl::ResourceExhaustedError("disk full"),
                                .last_saved_step = -1,
                                .last_saved_folder = "",
                                .failures = 1,
                                .durations = {}});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "the saver has logged it";
  EXPECT_EQ(LastLine().checkpoint_failures, 1);
  EXPECT_EQ(LastLine().last_checkpoint_step, -1);
}

TEST_F(ReporterTest, ACheckpointOfAnEarlierProcessKeepsItsAge) {
  const Time saved(std::chrono::seconds(1'600'000'000));
  reporter_->CheckpointFound(7, saved);
  EXPECT_EQ(LastLine().last_checkpoint_step, 7);
  EXPECT_EQ(LastLine().last_checkpoint_time, 1.6e9);
  state_.step = 5;  // the newest was damaged
  reporter_->Restored(state_.step, saved - std::chrono::seconds(60));
  EXPECT_EQ(LastLine().last_checkpoint_step, 5);
  EXPECT_EQ(LastLine().last_checkpoint_time, 1.6e9 - 60);
}

TEST_F(ReporterTest, TheCheckpointIntervalIsReported) {
  EXPECT_EQ(LastLine().checkpoint_interval, 0);  // nowhere to save
  api::TrainingSpec training = SmallTraining();
  training.checkpoint = {.directory = "/checkpoints", .every_steps = 3};
  const auto saving = *Session::Create({.training = training, .world = 2, .backend = "reference"});
  const Reporter reporter(*saving, *rendezvous_, *sender_, clock_,
                          [](const std::string&) { return std::nullopt; });
  EXPECT_EQ(LastLine().checkpoint_interval, 3);
}

TEST_F(ReporterTest, AllReduceBytesCountTheGradientsOfEachStep) {
  Step(milliseconds(10));
  const std::int64_t bytes = LastLine().all_reduce_bytes;
  EXPECT_EQ(bytes, static_cast<std::int64_t>(session_->buffer().size() * sizeof(float)));
  EXPECT_EQ(LastLine().total_steps, 20);
}

}  // namespace
}  // namespace lockstep::train
