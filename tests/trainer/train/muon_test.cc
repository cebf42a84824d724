// Training with Muon, whose updates multiply matrices: alone, in groups and in stages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/train/rank.h"
#include "trainer/rendezvous/fingerprint.h"

namespace lockstep::train {
namespace {

// With a second Dense, so that there are a wide matrix and a square one.
api::TrainingSpec MuonTraining() {
  api::TrainingSpec training = SmallTraining();
  api::Json layers = *training.model.layers;
  layers.back()["units"] = 7;
  layers.push_back({{"type", "Dense"}, {"units", 3}});
  training.model.layers = layers;
  training.optimizer = {.name = "Muon", .learning_rate = 0.01, .weight_decay = 0.01};
  return training;
}

void OnMuonRanks(int world, const std::function<void(int rank)>& run) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) ranks.emplace_back(run, rank);
  for (std::thread& rank : ranks) rank.join();
}

std::vector<float> TrainMuon(const api::TrainingSpec& training, const std::string& device,
                             int world, const RankPlace& place = {}) {
  LocalRendezvousHub hub(world);
  std::vector<float> parameters;
  OnMuonRanks(world, [&](int index) {
    Rank rank(training, world, hub, index, nullptr, device, nullptr, place);
    EXPECT_TRUE(rank.Train());
    if (index == 0) parameters = rank.Parameters();
  });
  return parameters;
}

void ExpectNearMuon(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
}

class MuonTest : public ::testing::TestWithParam<std::string> {};

TEST_P(MuonTest, TwoRanksTrainAsOneDoes) {
  const std::vector<float> alone = TrainMuon(MuonTraining(), GetParam(), 1);
  ExpectNearMuon(TrainMuon(MuonTraining(), GetParam(), 2), alone);
  api::TrainingSpec adam = MuonTraining();
  adam.optimizer.name = "Adam";
  EXPECT_NE(TrainMuon(adam, GetParam(), 1), alone);
}

TEST_P(MuonTest, TheUpdatesOfOneRankServeAll) {
  const auto central = [&](int world) {
    LocalRendezvousHub hub(world);
    std::vector<std::vector<float>> parameters(static_cast<std::size_t>(world));
    OnMuonRanks(world, [&](int index) {
      const UpdateSite site = index == 0 ? UpdateSite::kThisRank : UpdateSite::kRankZero;
      Rank rank(MuonTraining(), world, hub, index, nullptr, GetParam(), nullptr, {.site = site});
      EXPECT_TRUE(rank.Train());
      parameters[static_cast<std::size_t>(index)] = rank.Parameters();
    });
    return parameters;
  };
  const auto found = central(2);
  EXPECT_EQ(found[0], TrainMuon(MuonTraining(), GetParam(), 2));
  EXPECT_EQ(found[1], found[0]);
}

TEST_P(MuonTest, MicroBatchesClippingAndTheAverageWorkAsWithOthers) {
  api::TrainingSpec training = MuonTraining();
  training.optimizer.global_clip_norm = 0.5;
  training.ema = api::EmaSpec{.decay = 0.5};
  training.learning_rate_schedule = {.type = api::ScheduleType::kCosine, .warmup_steps = 3};
  const std::vector<float> whole = TrainMuon(training, GetParam(), 1);
  training.gradient_accumulation = 3;
  ExpectNearMuon(TrainMuon(training, GetParam(), 1), whole);
}

TEST_P(MuonTest, LearnsInSixteenBits) {
  for (const api::Precision precision : {api::Precision::kFloat16, api::Precision::kBFloat16}) {
    api::TrainingSpec training = MuonTraining();
    training.precision = precision;
    LocalRendezvousHub hub(1);
    Rank rank(training, 1, hub, 0, nullptr, GetParam());
    EXPECT_TRUE(rank.Train());
    EXPECT_EQ(rank.loop.state.skipped_steps, 0);
    EXPECT_GT(rank.loop.state.test_accuracy, 0.5) << "of three classes";
    EXPECT_NE(rank.Parameters(), TrainMuon(MuonTraining(), GetParam(), 1)) << "in float32";
  }
}

// The matrices are updated in float32 whatever the activations are.
TEST_P(MuonTest, TwoRanksTrainAsOneDoesInBFloat16) {
  api::TrainingSpec training = MuonTraining();
  training.precision = api::Precision::kBFloat16;
  training.epochs.reset();
  training.steps = 1;
  const std::vector<float> one = TrainMuon(training, GetParam(), 1);
  const std::vector<float> two = TrainMuon(training, GetParam(), 2);
  ASSERT_EQ(two.size(), one.size());
  // The sums of two halves round otherwise: by a few parts in 256 of an update of 0.01 at most.
  for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(two[i], one[i], 2e-3) << i;
}

TEST_P(MuonTest, ZeroGradientsChangeNothing) {
  LocalRendezvousHub hub(1);
  api::TrainingSpec training = MuonTraining();
  training.optimizer.weight_decay = 0;
  Rank rank(training, 1, hub, 0, nullptr, GetParam());
  rank.session->model().InitializeParameters();
  Backend& backend = rank.session->backend();
  Optimizer& optimizer = rank.session->optimizer();
  const std::span<float> gradients = rank.session->model().gradients();
  backend.Zero(gradients.data(), gradients.size_bytes());
  const std::vector<float> before = rank.Parameters();
  for (std::int64_t count = 1; count <= 3; ++count) {
    const OptimizerStep step{.learning_rate = 0.5, .step = count};
    backend.Upload(&step, optimizer.step(), sizeof(step));
    optimizer.Step();
  }
  EXPECT_EQ(rank.Parameters(), before) << "a matrix of zeros has no direction";
}

INSTANTIATE_TEST_SUITE_P(Devices, MuonTest, ::testing::ValuesIn(kDevices),
                         [](const auto& device) { return TestName(device.param); });

TEST(MuonStagesTest, StagesTrainAsTheWholeModelDoes) {
  const std::vector<float> whole = TrainMuon(MuonTraining(), "reference", 1);
  const std::vector<float> first = TrainMuon(MuonTraining(), "reference", 2, {.stages = 2});
  ASSERT_LT(first.size(), whole.size());
  EXPECT_EQ(first, std::vector<float>(whole.begin(), whole.begin() + std::ssize(first)));
}

std::string FingerprintOn(const std::string& backend, int world, const std::string& optimizer) {
  api::TrainingSpec training = MuonTraining();
  training.optimizer.name = optimizer;
  return (*Session::Create({.training = training, .world = world, .backend = backend}))
      ->Fingerprint();
}

// `reference` adds products up in float64, and "cpu" in float32.
TEST(MuonFingerprintTest, RanksWhoseProductsRoundDifferentlyDoNotTrainTogether) {
  const std::string own = FingerprintOn("reference", 2, "Muon");
  EXPECT_EQ(FingerprintOn("reference", 2, "Muon"), own);
  EXPECT_EQ(FingerprintOn("async-reference", 2, "Muon"), own);
  const auto difference = FirstDifference(own, FingerprintOn("cpu", 2, "Muon"));
  ASSERT_TRUE(difference);
  EXPECT_THAT(difference->own, ::testing::StartsWith("digestOfTheFirstUpdate="));
  // Others round alike, and a rank alone has nobody to agree with.
  EXPECT_THAT(FingerprintOn("reference", 2, "Adam"), ::testing::StartsWith("trainSamples="));
  EXPECT_THAT(FingerprintOn("reference", 1, "Muon"), ::testing::StartsWith("trainSamples="));
}

// The digest is of an update that is undone.
TEST_P(MuonTest, ARunBeginsWithTheSameValuesInAGroup) {
  const auto state_in = [&](int world) {
    const auto session =
        *Session::Create({.training = MuonTraining(), .world = world, .backend = GetParam()});
    return TrainingState(*session);
  };
  EXPECT_EQ(state_in(2), state_in(1));
}

}  // namespace
}  // namespace lockstep::train
