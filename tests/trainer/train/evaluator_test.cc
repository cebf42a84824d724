#include "trainer/train/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fault_file_system.h"
#include "tests/trainer/train/rank.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  EvaluationResult Save(std::int64_t step) {
    api::TrainingSpec training = FollowedTraining();
    training.seed = 100 + step;
    const auto trained = NewSession(training), saved = NewSession(FollowedTraining());
    const auto from = trained->model().parameters();
    std::ranges::copy(from, saved->model().parameters().begin());
    EXPECT_TRUE(store_->Save(MakeSnapshot(*saved, RunState{.step = step}, Time())).ok());
    const auto evaluation =
        std::get<std::optional<Evaluation>>(EvaluateAlone(*saved, [] { return false; }, [] {}));
    return {step, evaluation->loss, evaluation->accuracy};
  }
  LoopOutcome Run(const api::TrainingSpec& training = FollowedTraining()) {
    const auto session = NewSession(training);
    Evaluator evaluator(*session, files_, clock_,
                        {.job_uid = "uid",
                         .owner = kTraining,
                         .report =
                             [this](const EvaluationResult& result) {
                               reports_.push_back(result);
                               return report_(result);
                             },
                         .stop_requested = [this] { return stop_(); },
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

  FaultFileSystem files_;
  SystemClock clock_;
  std::unique_ptr<CheckpointStore> store_;
  std::vector<EvaluationResult> reports_;
  EvaluationRecord last_;
  EvaluatorMetrics shown_;
  std::function<absl::Status(const EvaluationResult&)> report_ = [](const EvaluationResult&) {
    return absl::OkStatus();
  };
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

TEST_F(EvaluatorTest, ItsNextProcessDoesNotRepeatWhatIsDone) {
  Save(5);
  Save(kLastStep);
  stop_ = [this] { return !reports_.empty(); };
  EXPECT_EQ(Run().end, LoopEnd::kStopped);
  EXPECT_THAT(Reported(), ElementsAre(5));
  reports_.clear();
  stop_ = [] { return false; };
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_THAT(Reported(), ElementsAre(kLastStep));
  // Once all is done, only the report is made again: the leading pod may be new.
  reports_.clear();
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_THAT(Reported(), ElementsAre(kLastStep));
}

TEST_F(EvaluatorTest, WithoutTheDiskItsNextProcessEvaluatesAgain) {
  Save(5);
  Save(kLastStep);
  files_.FillDiskInOperation(1, /*stays_full=*/true);
  EXPECT_EQ(Run().end, LoopEnd::kDone) << "what cannot be written is not needed";
  EXPECT_EQ(Run().end, LoopEnd::kDone);
  EXPECT_THAT(Reported(), ElementsAre(5, kLastStep, 5, kLastStep));
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

class BestCheckpointTest : public ::testing::Test {
 protected:
  std::unique_ptr<BestCheckpoint> New(api::BestMetric by, api::LossType loss = {}) {
    return std::make_unique<BestCheckpoint>(
        files_,
        BestCheckpointOptions{
            .directory = "/best", .by = by, .loss = loss, .owner = kTraining, .model_hash = "h"});
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
