// The exponential moving average of the parameters: training.ema.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/train/rank.h"
#include "trainer/checkpoint/average_tensors.h"
#include "trainer/train/evaluate.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<float>;

// Close to 0, so that the average is far from both ends of what it averages.
constexpr double kDecay = 0.75;

api::TrainingSpec AveragedTraining() {
  api::TrainingSpec training = SmallTraining();
  training.optimizer.name = "Adam";
  training.gradient_accumulation = 2;
  training.ema = api::EmaSpec{.decay = kDecay};
  return training;
}

Values AverageOf(Rank& rank) {
  return Download(rank.session->backend(), rank.session->optimizer().average());
}

// A plain loop over what the parameters were, the initial ones first.
Values GoldenAverage(const std::vector<Values>& history) {
  Values average = history.front();
  for (std::size_t step = 1; step < history.size(); ++step) {
    for (std::size_t i = 0; i < average.size(); ++i) {
      average[i] = static_cast<float>(kDecay * static_cast<double>(average[i]) +
                                      (1 - kDecay) * static_cast<double>(history[step][i]));
    }
  }
  return average;
}

void ExpectNear(const Values& found, const Values& expected, float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << i;
}

// The largest distance between two values of the same place.
float Distance(const Values& a, const Values& b) {
  float most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// The test loss with these parameters and the rank's running statistics, in a run without an
// average.
double LossWith(const Values& parameters, Rank& rank) {
  api::TrainingSpec plain = rank.session->training();
  plain.ema.reset();
  const auto session =
      *Session::Create({.training = plain, .backend = rank.session->backend().Name()});
  const Values states = Download(rank.session->backend(), rank.session->model().states());
  const auto upload = [&](const Values& values, std::span<float> to) {
    if (!to.empty()) session->backend().Upload(values.data(), to.data(), to.size_bytes());
  };
  upload(parameters, session->model().parameters());
  upload(states, session->model().states());
  return std::get<0>(EvaluateAlone(*session, [] { return false; }, [] {}))->loss;
}

class AverageTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Rank> MakeRank(const api::TrainingSpec& training,
                                 CheckpointStore* store = nullptr) {
    hubs_.push_back(std::make_unique<LocalRendezvousHub>(1));
    return std::make_unique<Rank>(training, 1, *hubs_.back(), 0, nullptr, GetParam(), store);
  }
  // To the end, with the parameters before each step, and at last those after the last one.
  std::vector<Values> HistoryOf(Rank& rank) {
    std::vector<Values> history;
    rank.faults.before = [&](StrategyFaults::At at) {
      if (at == StrategyFaults::At::kStep) history.push_back(rank.Parameters());
      return absl::OkStatus();
    };
    EXPECT_TRUE(rank.Train());
    history.push_back(rank.Parameters());
    return history;
  }
  std::vector<std::unique_ptr<LocalRendezvousHub>> hubs_;  // one for each rank
};

TEST_P(AverageTest, FollowsTheParametersOncePerUpdateAndLeavesThemAlone) {
  const auto rank = MakeRank(AveragedTraining());
  const std::vector<Values> history = HistoryOf(*rank);
  ASSERT_EQ(history.size(), 21u) << "20 steps";
  ExpectNear(AverageOf(*rank), GoldenAverage(history), 1e-6f);
  EXPECT_GT(Distance(AverageOf(*rank), rank->Parameters()), 1e-3f);
  api::TrainingSpec plain = AveragedTraining();
  plain.ema.reset();
  EXPECT_EQ(HistoryOf(*MakeRank(plain)), history);
}

TEST_P(AverageTest, IsEvaluatedInPlaceOfTheParameters) {
  const auto rank = MakeRank(AveragedTraining());
  EXPECT_TRUE(rank->Train());
  ASSERT_EQ(rank->loop.state.evaluated_step, 20);
  EXPECT_EQ(rank->loop.state.test_loss, LossWith(AverageOf(*rank), *rank));
  EXPECT_NE(rank->loop.state.test_loss, LossWith(rank->Parameters(), *rank));
}

TEST_P(AverageTest, ASkippedStepDoesNotMoveIt) {
  api::TrainingSpec training = AveragedTraining();
  training.max_skipped_steps = 100;
  training.evaluation.enabled = false;
  training.precision = api::Precision::kFloat16;
  training.optimizer = {.name = "SGD", .learning_rate = 0.1};
  training.epochs.reset();
  training.steps = 3;
  const auto rank = MakeRank(training);
  rank->rendezvous.at_activity = [&](api::Activity activity) {
    if (activity != api::Activity::kStep || rank->loop.state.step > 0) return;
    // No loss scale fits them: each step overflows.
    Values parameters = rank->Parameters();
    std::ranges::fill(parameters, 3e4f);
    rank->session->backend().Upload(parameters.data(), rank->session->model().parameters().data(),
                                    parameters.size() * sizeof(float));
  };
  const Values start = [&] {
    rank->session->model().InitializeParameters();
    return rank->Parameters();
  }();
  rank->RunOnce();
  ASSERT_EQ(rank->loop.state.StepsWithoutUpdate(), rank->loop.state.step);
  ASSERT_GT(rank->loop.state.step, 0);
  EXPECT_EQ(AverageOf(*rank), start);
}

TEST_P(AverageTest, IsSavedAndRestoredToTheBit) {
  api::TrainingSpec training = AveragedTraining();
  training.checkpoint.every_steps = 3;
  const auto whole = MakeRank(training);
  EXPECT_TRUE(whole->Train());
  const Values state = whole->State();
  const TempDirectory folder;
  {
    const auto store = OpenStore(folder, 1);
    const auto killed = MakeRank(training, store.get());
    killed->faults.after = DiesInStep(7);
    EXPECT_EQ(killed->RunOnce().end, LoopEnd::kGenerationOver);
  }
  const auto store = OpenStore(folder, 2);
  const auto resumed = MakeRank(training, store.get());
  EXPECT_TRUE(resumed->Train());
  EXPECT_EQ(resumed->loop.restored.step, 6);
  EXPECT_EQ(resumed->State(), state);
}

// While the average is in place, the parameters that are trained are elsewhere.
TEST_P(AverageTest, AStopDuringAnEvaluationSavesTheParametersThatAreTrained) {
  const auto whole = MakeRank(AveragedTraining());
  EXPECT_TRUE(whole->Train());
  const Values state = whole->State();
  const TempDirectory folder;
  {
    const auto store = OpenStore(folder, 1);
    const auto stopped = MakeRank(AveragedTraining(), store.get());
    stopped->rendezvous.at_activity = [&](api::Activity activity) {
      if (activity == api::Activity::kEvaluation) stopped->rendezvous.asked_to_stop = true;
    };
    EXPECT_EQ(stopped->RunOnce().end, LoopEnd::kStopped);
    ASSERT_EQ(stopped->loop.state.step, 5);
    ASSERT_EQ(stopped->loop.state.evaluated_step, -1);
  }
  const auto store = OpenStore(folder, 2);
  const auto resumed = MakeRank(AveragedTraining(), store.get());
  EXPECT_TRUE(resumed->Train());
  EXPECT_EQ(resumed->loop.restored.step, 5);
  EXPECT_EQ(resumed->State(), state);
}

TEST_P(AverageTest, BeginsAtTheParametersOfACheckpointThatHasNone) {
  api::TrainingSpec plain = AveragedTraining();
  plain.ema.reset();
  const auto before = MakeRank(plain);
  EXPECT_TRUE(before->Train());
  const Snapshot snapshot = MakeSnapshot(*before->session, before->loop.state, Time());
  const auto after = MakeRank(AveragedTraining());
  RunState state;
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(RestoreSnapshot(snapshot, *after->session, state).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the checkpoint has no average of the parameters"));
  EXPECT_EQ(AverageOf(*after), before->Parameters());
}

INSTANTIATE_TEST_SUITE_P(Backends, AverageTest, ::testing::ValuesIn(kBackendsUnderTest),
                         [](const auto& device) { return TestName(device.param); });

Snapshot SnapshotOf(const api::TrainingSpec& training) {
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0);
  EXPECT_TRUE(rank.Train());
  return MakeSnapshot(*rank.session, rank.loop.state, Time());
}

TEST(AverageInCheckpointsTest, ItLiesBesideTheParametersAndTheModelIsTheSame) {
  api::TrainingSpec plain = AveragedTraining();
  plain.ema.reset();
  const Snapshot with = SnapshotOf(AveragedTraining()), without = SnapshotOf(plain);
  EXPECT_EQ(with.model_hash, without.model_hash);
  EXPECT_EQ(with.optimizer.size(), without.optimizer.size());
  EXPECT_EQ(with.model.size(), 2 * without.model.size()) << "no running statistics";
  const auto trained = std::vector(with.model.begin(), with.model.begin() + 4);
  EXPECT_EQ(trained, without.model);
  EXPECT_EQ(with.model[4].name, "conv2d/weight/average");
  EXPECT_NE(with.model[4].data, with.model[0].data);
  // A run without an average goes on from either.
  const auto session = *Session::Create({.training = plain, .backend = "reference"});
  RunState state;
  EXPECT_TRUE(RestoreSnapshot(with, *session, state).ok());
}

TEST(AverageInCheckpointsTest, OneOfSomeParametersOnlyIsRefused) {
  Snapshot snapshot = SnapshotOf(AveragedTraining());
  std::erase_if(snapshot.model,
                [](const NamedTensor& tensor) { return tensor.name == "dense/bias/average"; });
  const auto session = *Session::Create({.training = AveragedTraining(), .backend = "reference"});
  RunState state;
  EXPECT_THAT(std::string(RestoreSnapshot(snapshot, *session, state).message()),
              HasSubstr("found no tensor 'dense/bias/average'"));
}

TEST(AverageInCheckpointsTest, AnEvaluatorEvaluatesItIfTheJobAsksForIt) {
  const Snapshot snapshot = SnapshotOf(AveragedTraining());
  SessionOptions options{.training = AveragedTraining(), .backend = "reference"};
  const auto first_of = [&] {
    const auto session = *Session::Create(options);
    EXPECT_TRUE(RestoreModel(snapshot, *session).ok());
    return CopyTensors(*session).model.front().data;
  };
  EXPECT_EQ(first_of(), snapshot.model[4].data);
  options.training.ema.reset();
  EXPECT_EQ(first_of(), snapshot.model[0].data);
}

TEST(AverageInCheckpointsTest, TheAveragesTakeTheirParametersPlaces) {
  const std::vector<NamedTensor> model = {{"a/weight", Shape{2}, {1, 2}},
                                          {"a/mean", Shape{1}, {3}},
                                          {"average/bias", Shape{1}, {4}},
                                          {"average/bias/average", Shape{1}, {5}},
                                          {"a/weight/average", Shape{2}, {6, 7}}};
  const std::vector<NamedTensor> expected = {
      {"a/weight", Shape{2}, {6, 7}}, {"a/mean", Shape{1}, {3}}, {"average/bias", Shape{1}, {5}}};
  EXPECT_EQ(WithAverages(model), expected);
  EXPECT_EQ(WithAverages(expected), expected) << "without averages";
}

// The rank that saves has two peers' worth of samples, and the one that goes on has all.
TEST(AverageOfRanksTest, AllHoldTheSameBitsAndAnotherNumberGoesOnFromThem) {
  api::TrainingSpec training = AveragedTraining();
  training.gradient_accumulation = 1;
  const TempDirectory folder;
  std::vector<Values> averages(2), states(2);
  {
    const auto store = OpenStore(folder, 1);
    LocalRendezvousHub hub(2);
    std::vector<std::jthread> threads;
    for (int index = 0; index < 2; ++index) {
      threads.emplace_back([&, index] {
        Rank rank(training, 2, hub, index, nullptr, "reference",
                  index == 0 ? store.get() : nullptr);
        EXPECT_TRUE(rank.Train());
        averages[static_cast<std::size_t>(index)] = AverageOf(rank);
        states[static_cast<std::size_t>(index)] = rank.State();
      });
    }
  }
  EXPECT_EQ(states[0], states[1]);
  training.epochs = 5;
  const auto store = OpenStore(folder, 2);
  LocalRendezvousHub hub(1);
  Rank alone(training, 1, hub, 0, nullptr, "reference", store.get());
  Values restored;
  alone.faults.before = [&](StrategyFaults::At at) {
    if (at == StrategyFaults::At::kStep && restored.empty()) restored = AverageOf(alone);
    return absl::OkStatus();
  };
  EXPECT_TRUE(alone.Train());
  EXPECT_EQ(restored, averages[0]);
  EXPECT_NE(AverageOf(alone), averages[0]);
}

TEST(AverageOfRanksTest, BeginsAtTheInitialWeights) {
  const TempDirectory folder;
  api::TrainingSpec training = AveragedTraining();
  training.checkpoint.export_to = folder.At("model.safetensors");
  LocalRendezvousHub first_hub(1), second_hub(1);
  Rank first(training, 1, first_hub, 0);
  EXPECT_TRUE(first.Train());
  const Values exported = AverageOf(first);  // that is what is exported
  training.initial_weights.path = training.checkpoint.export_to;
  training.checkpoint.export_to.clear();
  Rank second(training, 1, second_hub, 0);
  Values begun;
  second.faults.before = [&](StrategyFaults::At at) {
    if (at == StrategyFaults::At::kStep && begun.empty()) begun = AverageOf(second);
    return absl::OkStatus();
  };
  EXPECT_TRUE(second.Train());
  EXPECT_EQ(begun, exported);
}

}  // namespace
}  // namespace lockstep::train
