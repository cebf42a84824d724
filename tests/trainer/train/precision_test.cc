// Whole trainings in the 16-bit types.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>

#include "api/v1/enum_names.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/train/rank.h"

namespace lockstep::train {
namespace {

api::TrainingSpec Training(api::Precision precision) {
  api::TrainingSpec training = SmallTraining();
  training.optimizer.learning_rate = 0.05;
  training.precision = precision;
  return training;
}

double MeanLoss(const Rank& rank) {
  const EpochSums& sums = rank.loop.state.sums;
  return sums.loss / static_cast<double>(sums.examples);
}

// "cpu" is compared in numbers, not in bits: it may have instructions for the type.
std::vector<std::string> AllDevices() {
  std::vector<std::string> devices = kDevices;
  devices.push_back("cpu");
  return devices;
}

class PrecisionTest : public ::testing::TestWithParam<std::tuple<std::string, api::Precision>> {
 protected:
  const std::string device_ = std::get<0>(GetParam());
  const api::TrainingSpec training_ = Training(std::get<1>(GetParam()));
};

TEST_P(PrecisionTest, LearnsAsFloat32Does) {
  LocalRendezvousHub exact_hub(1), hub(1);
  Rank exact(Training(api::Precision::kFloat32), 1, exact_hub, 0, nullptr, device_);
  Rank rank(training_, 1, hub, 0, nullptr, device_);
  EXPECT_TRUE(exact.Train());
  EXPECT_TRUE(rank.Train());
  EXPECT_NEAR(MeanLoss(rank), MeanLoss(exact), 0.02 * MeanLoss(exact));
  EXPECT_NE(MeanLoss(rank), MeanLoss(exact)) << "it was trained in float32";
  EXPECT_EQ(rank.loop.state.skipped_steps, 0);
}

TEST_P(PrecisionTest, KilledAndResumedEqualsUninterruptedBitForBit) {
  api::TrainingSpec training = training_;
  training.checkpoint.every_steps = 3;
  // The fifth step's gradient overflows, which float16 must remember: it halves the loss's scale.
  const auto overflow_once = [](Rank& rank) {
    rank.faults.change_sum = [&rank](std::span<float> sums) {
      if (rank.loop.state.step == 4) sums[0] = std::numeric_limits<float>::infinity();
    };
  };
  training.max_skipped_steps = 1;
  LocalRendezvousHub whole_hub(1);
  Rank whole(training, 1, whole_hub, 0, nullptr, device_);
  overflow_once(whole);
  EXPECT_TRUE(whole.Train());
  const TempDirectory folder;
  {
    const auto store = OpenStore(folder, 1);
    LocalRendezvousHub hub(1);
    Rank killed(training, 1, hub, 0, nullptr, device_, store.get());
    overflow_once(killed);
    killed.faults.after = DiesInStep(7);
    EXPECT_EQ(killed.RunOnce().end, LoopEnd::kGenerationOver);
  }
  const auto store = OpenStore(folder, 2);
  LocalRendezvousHub hub(1);
  Rank resumed(training, 1, hub, 0, nullptr, device_, store.get());
  EXPECT_TRUE(resumed.Train());
  EXPECT_EQ(resumed.loop.restored.step, 6);
  EXPECT_EQ(resumed.State(), whole.State());
  EXPECT_EQ(resumed.loop.state, whole.loop.state);
}

// Its checkpoints have a scale that a run of Float16 can begin with.
TEST_P(PrecisionTest, OnlyFloat16AltersTheLossScale) {
  LocalRendezvousHub hub(1);
  Rank rank(training_, 1, hub, 0, nullptr, device_);
  EXPECT_TRUE(rank.Train());
  const LossScale& scale = rank.loop.state.loss_scale;
  EXPECT_EQ(scale.value, kInitialLossScale.value);
  EXPECT_EQ(scale.updates, training_.precision == api::Precision::kFloat16 ? 20 : 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, PrecisionTest,
                         ::testing::Combine(::testing::ValuesIn(AllDevices()),
                                            ::testing::Values(api::Precision::kBFloat16,
                                                              api::Precision::kFloat16)),
                         [](const auto& param) {
                           return TestName(std::get<0>(param.param)) + "_" +
                                  std::string(api::NameOf(std::get<1>(param.param)));
                         });

}  // namespace
}  // namespace lockstep::train
