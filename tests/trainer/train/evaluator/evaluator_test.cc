#include "trainer/train/evaluator/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fault_file_system.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/observe/event_file.h"
#include "tests/trainer/train/rank.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr std::int64_t kLastStep = 20;  // SmallTraining: 4 epochs of 5 steps
const CheckpointOwner kTraining{.job_uid = "uid", .attempt = 0, .pod_started = 1};

api::TrainingSpec FollowedTraining() {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.directory = "/ckpt";
  return training;
}

// A run's checkpoints in a folder, whose parameters differ, and its Evaluator.
class EvaluatorTest : public ::testing::Test {
 protected:
  EvaluatorTest() { store_ = *CheckpointStore::Open(files_, "/ckpt", 100, kTraining); }

  static std::unique_ptr<Session> NewSession(const api::TrainingSpec& training) {
    return *Session::Create({.training = training, .world = 1, .backend = "reference"});
  }
  // Saves the parameters of a model that was initialized with another seed; returns what
  // evaluating them gives.
  EvaluationResult Save(std::int64_t step, Time saved_at = Time()) {
    api::TrainingSpec training = FollowedTraining();
    training.seed = 100 + step + saved_at.time_since_epoch().count() % 97;
    const auto trained = NewSession(training), saved = NewSession(FollowedTraining());
    const auto from = trained->model().parameters();
    std::ranges::copy(from, saved->model().parameters().begin());
    EXPECT_TRUE(store_->Save(MakeSnapshot(*saved, RunState{.step = step}, saved_at)).ok());
    const auto evaluation =
        std::get<std::optional<Evaluation>>(EvaluateAlone(*saved, [] { return false; }, [] {}));
    return {step, evaluation->loss, evaluation->accuracy};
  }
  LoopOutcome Run(const api::TrainingSpec& training = FollowedTraining()) {
    Evaluator evaluator(
        training, files_, *clock_,
        {.job_uid = "uid",
         .test_set = test_set_,
         .owner = kTraining,
         .report = [this](const EvaluationResult& result) -> absl::StatusOr<LeaderAnswer> {
           reports_.push_back(result);
           const absl::Status sent = report_(result);
           if (!sent.ok()) return sent;
           return leader_;
         },
         .stop_requested = [this] { return stop_(); },
         .make_session =
             [&](const FollowedRun& run) {
               runs_.push_back(run);
               const SessionOptions options{
                   .training = training, .backend = "reference", .only_evaluates = true};
               return Session::Assemble(options, {.data = *Session::OpenData(options),
                                                  .backend = MakeBackend({.name = "reference"}),
                                                  .run = run});
             },
         .publish = [this](const EvaluatorMetrics& shown) { shown_ = shown; },
         .look_every = std::chrono::milliseconds(1)});
    LoopOutcome outcome = evaluator.Run();
    last_ = evaluator.last();
    return outcome;
  }
  std::vector<std::int64_t> Reported() const {
    std::vector<std::int64_t> steps;
    for (const EvaluationResult& result : reports_) steps.push_back(result.step);
    return steps;
  }

  static int Count(const std::string& text, const std::string& part) {
    int count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }

  FaultFileSystem files_;
  SystemClock system_clock_;
  const Clock* clock_ = &system_clock_;
  std::unique_ptr<CheckpointStore> store_;
  std::vector<EvaluationResult> reports_;
  EvaluationRecord last_;
  std::string test_set_ = "test set";
  EvaluatorMetrics shown_;
  std::vector<FollowedRun> runs_;  // that a session was made for
  std::function<absl::Status(const EvaluationResult&)> report_ = [](const EvaluationResult&) {
    return absl::OkStatus();
  };
  LeaderAnswer leader_;
  std::function<bool()> stop_ = [] { return false; };
};

TEST_F(EvaluatorTest, EvaluatesEachCheckpointAndEndsWithThatOfTheLastStep) {
  std::vector<EvaluationResult> expected;
  for (const std::int64_t step : {5, 10}) expected.push_back(Save(step));
  report_ = [&](const EvaluationResult& result) {  // the training goes on meanwhile
    if (result.step == 5) expected.push_back(Save(15));
    if (result.step == 15) expected.push_back(Save(kLastStep));
    return absl::OkStatus();
  };
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  ASSERT_THAT(Reported(), ElementsAre(5, 10, 15, kLastStep));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(reports_[i].loss, expected[i].loss) << i;
    EXPECT_EQ(reports_[i].metric, expected[i].metric) << i;
  }
  EXPECT_NE(reports_[0].loss, reports_[1].loss);
  EXPECT_EQ(last_.step, kLastStep);
  EXPECT_EQ(last_.loss, expected.back().loss);
  EXPECT_EQ(shown_.step, kLastStep);
  EXPECT_EQ(shown_.test_loss, expected.back().loss);
  EXPECT_EQ(shown_.test_accuracy, expected.back().metric);
  EXPECT_TRUE(std::isnan(shown_.test_mean_absolute_error));
  EXPECT_EQ(shown_.evaluations, 4);
}

// Also by the next process, which evaluates nothing more.
TEST_F(EvaluatorTest, NamedMetricsAreReportedAndKept) {
  api::TrainingSpec training = FollowedTraining();
  training.evaluation = {.metrics = {api::TestMetric::kTopKCategoricalAccuracy}, .top_k = 2};
  Save(kLastStep);
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  ASSERT_EQ(reports_.size(), 1u);
  const api::TestMetrics found = reports_[0].metrics;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GT(found.at(api::TestMetric::kTopKCategoricalAccuracy), reports_[0].metric);
  EXPECT_EQ(shown_.test_metrics, found);
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  EXPECT_EQ(shown_.test_metrics, found);
  training.evaluation.top_k = 1;
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  EXPECT_TRUE(shown_.test_metrics.empty()) << "they are of another number of classes";
}

TEST_F(EvaluatorTest, OnceTrainingHasEndedTheLastCheckpointIsFirst) {
  for (const std::int64_t step : {5, 10, 15}) Save(step);
  const EvaluationResult last = Save(kLastStep);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(Reported(), ElementsAre(kLastStep)) << "the others are older than the status";
  EXPECT_EQ(shown_.evaluations, 4);
  EXPECT_EQ(Count(log, "\"message\":\"evaluated\""), 4) << log;
  EXPECT_EQ(last_.step, kLastStep);
  EXPECT_EQ(last_.loss, last.loss);
  EXPECT_EQ(last_.skipped, 0);
}

// What the run would end with, and what an export takes from the checkpoint.
TEST_F(EvaluatorTest, OfARunThatRestoresItsBestModelThatOneIsEvaluated) {
  api::TrainingSpec keeps_best = FollowedTraining();
  keeps_best.checkpoint.keep_best = api::BestMetric::kLoss;
  const EvaluationResult best = Save(5);
  const auto session = NewSession(FollowedTraining());
  Snapshot snapshot = MakeSnapshot(*session, RunState{.step = kLastStep}, Time());
  snapshot.best = (**store_->LoadLatest(ModelHash(*session))).model;
  EXPECT_TRUE(store_->Save(snapshot).ok());
  for (const api::TrainingSpec& training : {FollowedTraining(), keeps_best}) {
    reports_.clear();
    EXPECT_TRUE(files_.RemoveRecursively("/ckpt/evaluation.json").ok());
    EXPECT_EQ(Run(training).end, LoopEnd::kDone);
    EXPECT_EQ(last_.step, kLastStep);
    EXPECT_EQ(last_.loss, best.loss);
  }
}

// A reader drops the steps that are not before the one that it comes to.
TEST_F(EvaluatorTest, ResultsThatComeAfterTheLastStepsHideItFromNoReader) {
  for (const std::int64_t step : {5, 10, 15, 20}) Save(step);
  const TempDirectory folder;
  api::TrainingSpec training = FollowedTraining();
  training.summaries.directory = folder.path();
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  const std::vector<std::string> files = FilesIn(folder.At("eval"));
  ASSERT_EQ(files.size(), 1u);
  std::map<std::string, std::vector<std::uint64_t>> curves;
  for (const std::string& event : Records(ReadTextFile(files[0]))) {
    for (const std::string tag : {"test/loss", "test/accuracy"}) {
      if (event.find(tag) == std::string::npos) continue;
      std::erase_if(curves[tag], [&](std::uint64_t step) { return step >= StepOf(event); });
      curves[tag].push_back(StepOf(event));
    }
  }
  EXPECT_THAT(curves, ElementsAre(Pair("test/accuracy", ElementsAre(5, 10, 15, kLastStep)),
                                  Pair("test/loss", ElementsAre(5, 10, 15, kLastStep))));
}

// The job waits for the Evaluator's end only so long.
TEST_F(EvaluatorTest, BehindTheLastCheckpointTheTimeForTheOthersIsBounded) {
  for (const std::int64_t step : {5, 10, 15, 20}) Save(step);
  lockstep::testing::FakeClock clock;
  clock_ = &clock;
  report_ = [&](const EvaluationResult&) {
    stop_ = [&] {  // from now on time passes
      clock.Advance(Evaluator::kForTheOthers / 5);
      return false;
    };
    return absl::OkStatus();
  };
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_THAT(Reported(), ElementsAre(kLastStep));
  EXPECT_EQ(last_.step, kLastStep);
  EXPECT_EQ(shown_.evaluations, 2) << "of 3 batches each";
  EXPECT_EQ(last_.skipped, 2);
}

TEST_F(EvaluatorTest, OneThatIsStoppedBehindTheLastCheckpointIsDone) {
  Save(5);
  Save(kLastStep);
  stop_ = [this] { return !reports_.empty(); };
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_EQ(last_.step, kLastStep);
}

TEST_F(EvaluatorTest, ALeadingPodThatSavesWhereItSeesNothingIsToldOnce) {
  lockstep::testing::FakeClock clock;
  clock_ = &clock;
  leader_.checkpoint_step = 15;
  stop_ = [&] {
    clock.Advance(std::chrono::seconds(1));
    return reports_.size() > 50;
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Run().end, LoopEnd::kStopped);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(reports_.front().step, -1) << "there is no result to tell";
  EXPECT_EQ(Count(log, "is not seen here"), 1) << log;
  EXPECT_THAT(log, HasSubstr("\"saved\":15"));
  EXPECT_EQ(shown_.leader_step, 15);
  EXPECT_FALSE(reports_.front().misses_checkpoints);
  EXPECT_TRUE(reports_.back().misses_checkpoints);
}

TEST_F(EvaluatorTest, WhatFailsAgainAndAgainIsLoggedOnce) {
  Save(5);
  lockstep::testing::FakeClock clock;
  clock_ = &clock;
  int reports = 0;
  report_ = [&](const EvaluationResult&) {
    ++reports;
    return absl::UnavailableError("nobody there");
  };
  stop_ = [&] {
    clock.Advance(std::chrono::seconds(1));
    return reports > 20;
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Run().end, LoopEnd::kStopped);
  EXPECT_EQ(Count(::testing::internal::GetCapturedStderr(), "nobody there"), 1);
}

// It may be of an older version, which never gives an answer that can be believed.
TEST_F(EvaluatorTest, ALeadingPodThatDoesNotAnswerIsAskedEverMoreRarely) {
  Save(5);
  lockstep::testing::FakeClock clock;
  clock_ = &clock;
  std::vector<SteadyTime> times;
  bool answers = false;
  report_ = [&](const EvaluationResult&) {
    times.push_back(clock.SteadyNow());
    return answers ? absl::OkStatus() : absl::PermissionDeniedError("no proof");
  };
  const SteadyTime end = clock.SteadyNow() + std::chrono::minutes(1);
  stop_ = [&] {
    clock.Advance(std::chrono::milliseconds(100));
    return clock.SteadyNow() >= end;
  };
  EXPECT_EQ(Run().end, LoopEnd::kStopped);
  ASSERT_GE(times.size(), 5U);
  EXPECT_LE(times.size(), 25U);
  EXPECT_LT(times[1] - times[0], std::chrono::seconds(1));
  EXPECT_GE(times.back() - times[times.size() - 2], std::chrono::seconds(10));
}

TEST_F(EvaluatorTest, ItsNextProcessDoesNotRepeatWhatIsDone) {
  Save(5);
  stop_ = [this] { return !reports_.empty(); };
  EXPECT_EQ(Run().end, LoopEnd::kStopped);
  EXPECT_THAT(Reported(), ElementsAre(5));
  reports_.clear();
  Save(kLastStep);
  stop_ = [] { return false; };
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_THAT(Reported(), ElementsAre(kLastStep));
  // Once all is done, only the report is made again: the leading pod may be new.
  reports_.clear();
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_THAT(Reported(), ElementsAre(kLastStep));
}

// Training may have gone on from an earlier step meanwhile.
TEST_F(EvaluatorTest, ItsNextProcessEvaluatesACheckpointThatWasSavedAgain) {
  const Time first{std::chrono::seconds(1'700'000'000)};
  const EvaluationResult before = Save(kLastStep, first);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_EQ(shown_.evaluations, 0) << "the second has nothing to do";
  for (const int seconds : {60, -60}) {  // by the clock of another node
    const EvaluationResult after = Save(kLastStep, first + std::chrono::seconds(seconds));
    ASSERT_NE(after.loss, before.loss);
    EXPECT_EQ(Run().end, LoopEnd::kDone);
    EXPECT_EQ(shown_.evaluations, 1);
    EXPECT_EQ(reports_.back().loss, after.loss);
    EXPECT_EQ(last_.loss, after.loss);
    EXPECT_EQ(Run().end, LoopEnd::kDone);
    EXPECT_EQ(shown_.evaluations, 0);
  }
}

TEST_F(EvaluatorTest, WithoutTheDiskItsNextProcessEvaluatesAgain) {
  Save(5);
  Save(kLastStep);
  files_.FillDiskInOperation(1, /*stays_full=*/true);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Run().end, LoopEnd::kDone) << "what cannot be written is not needed";
    EXPECT_EQ(shown_.evaluations, 2);
  }
  EXPECT_THAT(Reported(), ElementsAre(kLastStep, kLastStep));
}

TEST_F(EvaluatorTest, AReportThatFailedIsMadeAgain) {
  Save(5);
  int failures = 3;
  report_ = [&](const EvaluationResult&) {
    if (failures == 0) Save(kLastStep);
    return --failures >= 0 ? absl::UnavailableError("nobody there") : absl::OkStatus();
  };
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_THAT(Reported(), ElementsAre(5, 5, 5, 5, kLastStep));
}

TEST_F(EvaluatorTest, AnEvaluationThatIsStoppedIsNoResult) {
  Save(5);
  int asked = 0;
  stop_ = [&] { return ++asked > 2; };  // during the batches
  EXPECT_EQ(Run().end, LoopEnd::kStopped);
  EXPECT_THAT(Reported(), ElementsAre());
  EXPECT_EQ(last_.step, -1);
}

TEST_F(EvaluatorTest, ACheckpointOfOtherSettingsEndsIt) {
  Save(5);
  api::TrainingSpec training = FollowedTraining();
  training.batch_size.global = 8;
  const LoopOutcome outcome = Run(training);
  EXPECT_EQ(outcome.end, LoopEnd::kFailed);
  EXPECT_THAT(std::string(outcome.reason.message()), HasSubstr("globalBatch"));
}

TEST_F(EvaluatorTest, OnAnotherTestSetAllIsEvaluatedAgain) {
  api::TrainingSpec training = FollowedTraining();
  training.checkpoint.keep_best = api::BestMetric::kAccuracy;
  for (const std::int64_t step : {15, 20}) Save(step);
  for (const char* test_set : {"test set", "another", "another"}) {
    test_set_ = test_set;
    EXPECT_EQ(Run(training).end, LoopEnd::kDone);
    EXPECT_EQ(last_.test_set, test_set_);
  }
  EXPECT_EQ(shown_.evaluations, 0) << "the third has nothing to do";
  EXPECT_THAT(Reported(), ElementsAre(kLastStep, -1, kLastStep, kLastStep))
      << "the numbers on the first test set are void at once";
  EXPECT_THAT(reports_[0].test_set, StartsWith("test set, loss "));
  EXPECT_THAT(reports_[1].test_set, StartsWith("another, loss "));
  reports_.clear();
  test_set_ = "a third";
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  EXPECT_EQ(shown_.evaluations, 2);
  const auto best = files_.ListDirectory("/ckpt/best");
  ASSERT_TRUE(best.ok());
  for (const std::string& name : *best) {
    if (!name.starts_with("step-")) continue;
    const auto manifest = ReadManifest(files_, "/ckpt/best/" + name);
    EXPECT_EQ(manifest->state["evaluation"]["testSet"], "a third");
  }
}

// The other job trains on if the group of this one never forms.
TEST_F(EvaluatorTest, ItWaitsUntilItsJobHasTakenTheDirectoryOfAnother) {
  Save(kLastStep);
  const std::string ours = files_.Content("/ckpt/owner.json");
  files_.Content("/ckpt/owner.json") =
      EncodeOwner({.process = {.job_uid = "another", .pod_started = 1}, .earlier_jobs = {}});
  api::TrainingSpec training = FollowedTraining();
  training.checkpoint.keep_best = api::BestMetric::kLoss;
  int looks = 0;
  stop_ = [&] { return ++looks > 20; };
  EXPECT_EQ(Run(training).end, LoopEnd::kStopped);
  EXPECT_FALSE(files_.Exists("/ckpt/evaluation.json"));
  EXPECT_FALSE(files_.Exists("/ckpt/best"));
  looks = 0;
  stop_ = [&] {
    if (++looks == 20) files_.Content("/ckpt/owner.json") = ours;
    return false;
  };
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  EXPECT_TRUE(files_.Exists("/ckpt/best/step-00000020"));
}

// It may be edited while the job is suspended.
TEST_F(EvaluatorTest, ByAnotherLossAllIsEvaluatedAgain) {
  for (const std::int64_t step : {15, 20}) Save(step);
  api::TrainingSpec training = FollowedTraining();
  training.checkpoint.keep_best = api::BestMetric::kLoss;
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  const std::string before = reports_.back().test_set;
  // As a version has written it that did not note the loss.
  std::string& record = files_.Content("/ckpt/evaluation.json");
  const auto at = record.find("lossFunction");
  ASSERT_NE(at, std::string::npos);
  record.replace(at, 4, "old ");
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  EXPECT_EQ(shown_.evaluations, 0);
  record.replace(at, 4, "loss");
  reports_.clear();
  training.loss.from_logits = true;  // it was so without being said
  for (const int evaluations : {2, 0}) {
    EXPECT_EQ(Run(training).end, LoopEnd::kDone);
    EXPECT_EQ(shown_.evaluations, evaluations);
  }
  ASSERT_THAT(Reported(), ElementsAre(-1, kLastStep, kLastStep));
  EXPECT_TRUE(reports_[0].voids_earlier);
  EXPECT_NE(reports_[1].test_set, before);
}

// A disk that was full when the Evaluator began, and has room when the only checkpoint is there.
TEST_F(EvaluatorTest, TheFirstCheckpointIsKeptThoughTheDirectoryOfTheBestCouldNotBeMadeAtFirst) {
  api::TrainingSpec training = FollowedTraining();
  training.checkpoint.keep_best = api::BestMetric::kLoss;
  Save(kLastStep);
  files_.FillDiskInOperation(1, /*stays_full=*/false);
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  EXPECT_TRUE(files_.Exists("/ckpt/best/step-00000020"));
}

// Reading it takes as much memory as the checkpoint that is evaluated.
TEST_F(EvaluatorTest, TheBestCopyIsReadBeforeACheckpointIsHeld) {
  api::TrainingSpec training = FollowedTraining();
  training.checkpoint.keep_best = api::BestMetric::kLoss;
  const auto session = NewSession(training);
  BestCheckpoint earlier(files_, {.directory = "/ckpt/best",
                                  .by = api::BestMetric::kLoss,
                                  .loss = training.loss.type,
                                  .owner = kTraining,
                                  .model_hash = ModelHash(*session),
                                  .test_set = test_set_,
                                  .loss_function = LossText(training)});
  ASSERT_TRUE(earlier.Open().ok());
  const Snapshot best = MakeSnapshot(*session, {.step = 5}, Time());
  ASSERT_TRUE(earlier.Offer(best, {.step = 5, .loss = -1}).ok());
  Save(kLastStep);
  stop_ = [&] {  // before each batch, too
    if (shown_.batches > 0) files_.Content("/ckpt/best/step-00000005/model.safetensors").clear();
    return false;
  };
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  EXPECT_TRUE(files_.Exists("/ckpt/best/step-00000005")) << "it was whole when it was read";
}

// While the first evaluation on it goes on, the leading pod may be replaced.
TEST_F(EvaluatorTest, UntilTheFirstResultItTellsThatNumbersOnAnotherTestSetAreVoid) {
  Save(kLastStep);
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_FALSE(reports_.front().voids_earlier);
  reports_.clear();
  test_set_ = "another";
  lockstep::testing::FakeClock clock;
  clock_ = &clock;
  stop_ = [&] {  // before each batch
    if (reports_.back().step < 0) clock.Advance(std::chrono::seconds(11));
    return false;
  };
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_THAT(Reported(), ElementsAre(-1, -1, -1, -1, kLastStep)) << "of 3 batches";
  for (const EvaluationResult& report : reports_) {
    EXPECT_EQ(report.voids_earlier, report.step < 0);
  }
}

// As a run whose replicas evaluate; the result is noted, so that a restarted one goes on.
TEST_F(EvaluatorTest, ATestLossThatIsNotFiniteEndsIt) {
  const auto session = NewSession(FollowedTraining());
  std::ranges::fill(session->model().parameters(), std::numeric_limits<float>::infinity());
  ASSERT_TRUE(store_->Save(MakeSnapshot(*session, {.step = 5}, Time())).ok());
  int looks = 0;
  stop_ = [&] { return ++looks > 1000; };
  const LoopOutcome outcome = Run();
  EXPECT_EQ(outcome.end, LoopEnd::kDiverged);
  stop_ = [] { return false; };
  EXPECT_THAT(std::string(outcome.reason.message()), HasSubstr("step 5: found a test loss of "));
  EXPECT_THAT(Reported(), ElementsAre(5));
  Save(kLastStep);
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_THAT(Reported(), ElementsAre(5, kLastStep));
}

// The last checkpoint is evaluated first once the training has ended.
TEST_F(EvaluatorTest, ARunThatHasRecoveredHasNotDiverged) {
  const auto session = NewSession(FollowedTraining());
  std::ranges::fill(session->model().parameters(), std::numeric_limits<float>::infinity());
  ASSERT_TRUE(store_->Save(MakeSnapshot(*session, {.step = 5}, Time())).ok());
  Save(kLastStep);
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_EQ(shown_.evaluations, 2);
  EXPECT_THAT(Reported(), ElementsAre(kLastStep));
}

// The first checkpoint says what the run trains on, so that the training data need not be there.
TEST_F(EvaluatorTest, ItsSessionIsMadeOnceThereIsACheckpoint) {
  leader_.checkpoint_step = 5;
  bool has_saved = false;
  stop_ = [&] {
    if (!std::exchange(has_saved, true)) {
      EXPECT_EQ(shown_.step, -1);
      for (const std::int64_t step : {5, 20}) Save(step);
    }
    return false;
  };
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_THAT(runs_,
              ElementsAre(FollowedRun{
                  .examples = 70, .input = {1, 8, 8}, .element = DType::kUInt8, .outputs = 3}));
  EXPECT_EQ(shown_.evaluations, 2);
}

TEST_F(EvaluatorTest, TheMostAccurateCheckpointIsKeptWhole) {
  api::TrainingSpec training = FollowedTraining();
  training.checkpoint.keep_best = api::BestMetric::kAccuracy;
  EvaluationResult best;
  for (const std::int64_t step : {5, 10, 15, 20}) {
    const EvaluationResult result = Save(step);
    if (best.step < 0 || result.metric > best.metric) best = result;
  }
  EXPECT_EQ(Run(training).end, LoopEnd::kDone);
  auto kept = *CheckpointStore::Open(files_, "/ckpt/best", 1, kTraining);
  const auto session = NewSession(FollowedTraining());
  const auto copy = kept->LoadLatest(ModelHash(*session));
  ASSERT_TRUE(copy.ok() && copy->has_value()) << copy.status();
  EXPECT_EQ((*copy)->step, best.step);
  EXPECT_EQ((*copy)->state["evaluation"]["testAccuracy"], best.metric);
  RunState state;
  EXPECT_TRUE(RestoreSnapshot(**copy, *session, state).ok()) << "a job can go on from it";
}

TEST_F(EvaluatorTest, TheCheckpointThatIsBestByANamedMetricIsKept) {
  api::TrainingSpec training = FollowedTraining();
  training.evaluation = {.metrics = {api::TestMetric::kTopKCategoricalAccuracy}, .top_k = 2};
  training.checkpoint.keep_best = api::BestMetric::kTopKCategoricalAccuracy;
  for (const std::int64_t step : {5, 10, 15}) Save(step);
  stop_ = [this] { return reports_.size() == 3; };
  EXPECT_EQ(Run(training).end, LoopEnd::kStopped);
  stop_ = [] { return false; };
  Save(kLastStep);
  EXPECT_EQ(Run(training).end, LoopEnd::kDone) << "the next process";
  double most = 0;
  for (const EvaluationResult& result : reports_) {
    for (const auto& [metric, value] : result.metrics) most = std::max(most, value);
  }
  auto kept = *CheckpointStore::Open(files_, "/ckpt/best", 1, kTraining);
  const auto copy = kept->LoadLatest(ModelHash(*NewSession(training)));
  ASSERT_TRUE(copy.ok() && copy->has_value()) << copy.status();
  const nlohmann::json evaluation = (*copy)->state.value("evaluation", nlohmann::json::object());
  EXPECT_EQ(evaluation.value("testMetrics", nlohmann::json()),
            (nlohmann::json{{"TopKCategoricalAccuracy", most}, {"topK", 2}}));
}

class BestCheckpointTest : public ::testing::Test {
 protected:
  std::unique_ptr<BestCheckpoint> New(api::BestMetric by, api::LossType loss = {}) {
    auto best =
        std::make_unique<BestCheckpoint>(files_, BestCheckpointOptions{.directory = "/best",
                                                                       .by = by,
                                                                       .loss = loss,
                                                                       .evaluation = evaluation_,
                                                                       .owner = kTraining,
                                                                       .model_hash = "h",
                                                                       .test_set = test_set_,
                                                                       .loss_function = loss_});
    EXPECT_TRUE(best->Open().ok());
    return best;
  }
  void Offer(BestCheckpoint& best, const EvaluationResult& result) {
    Snapshot snapshot{.step = result.step, .state = nlohmann::json::object(), .model_hash = "h"};
    snapshot.model = {{"w", Shape{1}, {1.0f}}};
    const absl::Status offered = best.Offer(std::move(snapshot), result);
    EXPECT_TRUE(offered.ok()) << offered;
  }
  std::vector<std::string> Kept() {
    std::vector<std::string> names = *files_.ListDirectory("/best");
    std::erase(names, "owner.json");
    return names;
  }

  std::string test_set_ = "test set", loss_ = "MSE";
  api::EvaluationSpec evaluation_;
  FaultFileSystem files_;
};

TEST_F(BestCheckpointTest, OnlyABetterOneReplacesTheCopy) {
  auto best = New(api::BestMetric::kAccuracy);
  const double nan = std::nan("");
  Offer(*best, {.step = 1, .loss = nan, .metric = nan});
  EXPECT_THAT(Kept(), ElementsAre("step-00000001")) << "the first, whatever it is";
  Offer(*best, {.step = 2, .loss = 9, .metric = 0.5});
  Offer(*best, {.step = 3, .loss = 1, .metric = 0.5});
  Offer(*best, {.step = 4, .loss = 1, .metric = nan});
  EXPECT_THAT(Kept(), ElementsAre("step-00000002"));
  Offer(*best, {.step = 5, .loss = 9, .metric = 0.75});
  best = New(api::BestMetric::kAccuracy);  // the next process
  Offer(*best, {.step = 6, .loss = 1, .metric = 0.7});
  EXPECT_THAT(Kept(), ElementsAre("step-00000005"));
}

// Training may go on from an earlier step than that of the best copy.
TEST_F(BestCheckpointTest, ABetterOneOfAnEarlierStepIsTheOnlyOne) {
  auto best = New(api::BestMetric::kAccuracy);
  Offer(*best, {.step = 100, .loss = 1, .metric = 0.5});
  Offer(*best, {.step = 50, .loss = 1, .metric = 0.75});
  EXPECT_THAT(Kept(), ElementsAre("step-00000050"));
  best = New(api::BestMetric::kAccuracy);  // the next process
  Offer(*best, {.step = 60, .loss = 1, .metric = 0.6});
  EXPECT_THAT(Kept(), ElementsAre("step-00000050"));
}

TEST_F(BestCheckpointTest, OfTwoCopiesThatACrashHasLeftTheBetterStays) {
  auto best = New(api::BestMetric::kAccuracy);
  Offer(*best, {.step = 100, .loss = 1, .metric = 0.5});
  const std::vector<std::string> old = {"manifest.json", "model.safetensors",
                                        "optimizer.safetensors"};
  std::map<std::string, std::string> content;
  for (const std::string& name : old) content[name] = files_.Content("/best/step-00000100/" + name);
  Offer(*best, {.step = 50, .loss = 1, .metric = 0.75});
  ASSERT_TRUE(files_.CreateDirectory("/best/step-00000100").ok());
  for (const std::string& name : old) {
    const std::string path = "/best/step-00000100/" + name;
    ASSERT_TRUE(files_.WriteFile(path, {std::as_bytes(std::span(content[name]))}).ok());
  }
  best = New(api::BestMetric::kAccuracy);
  Offer(*best, {.step = 110, .loss = 1, .metric = 0.6});
  EXPECT_THAT(Kept(), ElementsAre("step-00000050")) << "a job that goes on takes the last step";
  Offer(*best, {.step = 120, .loss = 1, .metric = 0.8});
  EXPECT_THAT(Kept(), ElementsAre("step-00000120"));
}

// It does not say whose it is, but the directory's owner does.
TEST_F(BestCheckpointTest, ACopyOfAnEarlierVersionIsThatOfTheOwner) {
  for (const bool is_ours : {true, false}) {
    ASSERT_TRUE(files_.RemoveRecursively("/best").ok());
    const CheckpointOwner owner{.job_uid = is_ours ? "uid" : "another", .pod_started = 1};
    Snapshot old{.step = 1, .state = {{"evaluation", {{"testAccuracy", 0.75}}}}, .model_hash = "h"};
    old.model = {{"w", Shape{1}, {1.0f}}};
    ASSERT_TRUE((*CheckpointStore::Open(files_, "/best", 1, owner))->Save(old).ok());
    auto best = New(api::BestMetric::kAccuracy);
    Offer(*best, {.step = 2, .loss = 1, .metric = 0.5});
    EXPECT_THAT(Kept(), ElementsAre(is_ours ? "step-00000001" : "step-00000002"));
    best = New(api::BestMetric::kAccuracy);  // the next process
    Offer(*best, {.step = 3, .loss = 1, .metric = 0.6});
    EXPECT_THAT(Kept(), ElementsAre(is_ours ? "step-00000001" : "step-00000003"));
  }
}

// Its numbers may be of another test set, and a job cannot go on from another model.
TEST_F(BestCheckpointTest, TheCopyOfAnotherJobOrModelIsReplaced) {
  auto best = New(api::BestMetric::kAccuracy);
  Offer(*best, {.step = 100, .loss = 1, .metric = 0.9});
  BestCheckpointOptions other{.directory = "/best",
                              .by = api::BestMetric::kAccuracy,
                              .loss = {},
                              .owner = {.job_uid = "another", .pod_started = 2},
                              .model_hash = "h"};
  BestCheckpoint of_other_job(files_, other);
  EXPECT_TRUE(of_other_job.Open().ok());
  Offer(of_other_job, {.step = 50, .loss = 1, .metric = 0.25});
  EXPECT_THAT(Kept(), ElementsAre("step-00000050"));
  other.model_hash = "of another model";
  BestCheckpoint of_other_model(files_, other);
  EXPECT_TRUE(of_other_model.Open().ok());
  Offer(of_other_model, {.step = 10, .loss = 1, .metric = 0.125});
  EXPECT_THAT(Kept(), ElementsAre("step-00000010"));
}

TEST_F(BestCheckpointTest, TheCopyOfAnotherTestSetIsReplaced) {
  Offer(*New(api::BestMetric::kAccuracy), {.step = 1, .loss = 1, .metric = 0.9});
  test_set_ = "another";
  Offer(*New(api::BestMetric::kAccuracy), {.step = 2, .loss = 1, .metric = 0.5});
  EXPECT_THAT(Kept(), ElementsAre("step-00000002"));
  Offer(*New(api::BestMetric::kAccuracy), {.step = 3, .loss = 1, .metric = 0.4});
  EXPECT_THAT(Kept(), ElementsAre("step-00000002")) << "of the same test set";
}

TEST_F(BestCheckpointTest, TheCopyByAnotherLossIsReplaced) {
  Offer(*New(api::BestMetric::kLoss), {.step = 1, .loss = 0.01, .metric = 1});
  loss_ = "MAE";
  Offer(*New(api::BestMetric::kLoss), {.step = 2, .loss = 0.08, .metric = 1});
  EXPECT_THAT(Kept(), ElementsAre("step-00000002"));
  Offer(*New(api::BestMetric::kLoss), {.step = 3, .loss = 0.09, .metric = 1});
  EXPECT_THAT(Kept(), ElementsAre("step-00000002")) << "by the same loss";
}

TEST_F(BestCheckpointTest, AnOfferReadsNothing) {
  Offer(*New(api::BestMetric::kLoss), {.step = 1, .loss = 1, .metric = 1});
  const auto best = New(api::BestMetric::kLoss);
  const int reads = files_.reads();
  Offer(*best, {.step = 2, .loss = 2, .metric = 1});
  EXPECT_EQ(files_.reads(), reads);
}

TEST_F(BestCheckpointTest, WhatCannotBeOpenedIsOpenedLater) {
  BestCheckpoint best(files_, {.directory = "/best", .owner = kTraining, .model_hash = "h"});
  files_.FillDiskInOperation(1, /*stays_full=*/false);
  EXPECT_TRUE(absl::IsResourceExhausted(best.Open()));
  EXPECT_TRUE(absl::IsResourceExhausted(best.Offer({.step = 1, .model_hash = "h"}, {.step = 1})));
  EXPECT_TRUE(best.Open().ok());
  Offer(best, {.step = 2, .loss = 1, .metric = 1});
  EXPECT_THAT(Kept(), ElementsAre("step-00000002"));
}

TEST_F(BestCheckpointTest, ByLossTheLowestIsTheBest) {
  auto best = New(api::BestMetric::kLoss);
  Offer(*best, {.step = 1, .loss = 2, .metric = 0.5});
  Offer(*best, {.step = 2, .loss = 3, .metric = 0.9});
  EXPECT_THAT(Kept(), ElementsAre("step-00000001"));
  Offer(*best, {.step = 3, .loss = 1, .metric = 0.1});
  EXPECT_THAT(Kept(), ElementsAre("step-00000003"));
}

TEST_F(BestCheckpointTest, TheLowestMeanAbsoluteErrorIsTheBest) {
  const auto by = api::BestMetric::kMeanAbsoluteError;
  auto best = New(by, api::LossType::kHuber);
  Offer(*best, {.step = 1, .loss = 2, .metric = 0.5});
  Offer(*best, {.step = 2, .loss = 1, .metric = 0.75});
  EXPECT_THAT(Kept(), ElementsAre("step-00000001"));
  best = New(by, api::LossType::kHuber);  // the next process
  Offer(*best, {.step = 3, .loss = 1, .metric = 0.6});
  EXPECT_THAT(Kept(), ElementsAre("step-00000001"));
  Offer(*best, {.step = 4, .loss = 3, .metric = 0.25});
  EXPECT_THAT(Kept(), ElementsAre("step-00000004"));
  const std::string& manifest = files_.Content("/best/step-00000004/manifest.json");
  EXPECT_THAT(manifest, HasSubstr("testMeanAbsoluteError"));
}

TEST_F(BestCheckpointTest, ByAMetricThatTheJobNamesTheHighestIsTheBest) {
  const auto with_auc = [](std::int64_t step, double auc) {
    return EvaluationResult{
        .step = step, .loss = 1, .metric = 0.5, .metrics = {{api::TestMetric::kAuc, auc}}};
  };
  evaluation_.metrics = {api::TestMetric::kAuc};
  // As by a version that wrote no named metrics, or while the job named none.
  Offer(*New(api::BestMetric::kLoss), {.step = 1, .loss = 0, .metric = 1});
  auto best = New(api::BestMetric::kAuc);
  Offer(*best, with_auc(2, 0.5));
  EXPECT_THAT(Kept(), ElementsAre("step-00000002"));
  Offer(*best, {.step = 3, .loss = 0, .metric = 1});
  EXPECT_THAT(Kept(), ElementsAre("step-00000002")) << "a number that is not finite is left out";
  Offer(*best, with_auc(4, 0.75));
  best = New(api::BestMetric::kAuc);  // the next process
  Offer(*best, with_auc(5, 0.6));
  EXPECT_THAT(Kept(), ElementsAre("step-00000004"));
}

TEST_F(BestCheckpointTest, AccuraciesOfAnotherTopKDoNotCompare) {
  constexpr auto kTopK = api::TestMetric::kTopKCategoricalAccuracy;
  constexpr auto kBy = api::BestMetric::kTopKCategoricalAccuracy;
  evaluation_ = {.metrics = {kTopK}, .top_k = 3};
  Offer(*New(kBy), {.step = 1, .metrics = {{kTopK, 0.75}}});
  Offer(*New(kBy), {.step = 2, .metrics = {{kTopK, 0.5}}});
  EXPECT_THAT(Kept(), ElementsAre("step-00000001"));
  evaluation_.top_k = 2;
  Offer(*New(kBy), {.step = 3, .metrics = {{kTopK, 0.25}}});
  EXPECT_THAT(Kept(), ElementsAre("step-00000003"));
}

TEST_F(BestCheckpointTest, AFullDiskLeavesTheCopy) {
  auto best = New(api::BestMetric::kLoss);
  Offer(*best, {.step = 1, .loss = 2});
  files_.FillDiskInOperation(1, /*stays_full=*/false);
  Snapshot snapshot{.step = 2, .state = nlohmann::json::object(), .model_hash = "h"};
  EXPECT_FALSE(best->Offer(std::move(snapshot), {.step = 2, .loss = 1}).ok());
  EXPECT_THAT(Kept(), ElementsAre("step-00000001"));
  Offer(*best, {.step = 3, .loss = 1.5});
  EXPECT_THAT(Kept(), ElementsAre("step-00000003"));
}

}  // namespace
}  // namespace lockstep::train
