// Smoothed labels are those of the training loss; evaluate_test.cc shows that evaluation has none.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/train/rank.h"

namespace lockstep::train {
namespace {

class LabelSmoothingTest : public ::testing::TestWithParam<std::string> {
 protected:
  // The mean over the last epoch's steps.
  static double MeanTrainingLoss(double label_smoothing) {
    api::TrainingSpec training = SmallTraining();
    training.optimizer.learning_rate = 0.05;
    training.label_smoothing = label_smoothing;
    LocalRendezvousHub hub(1);
    Rank rank(training, 1, hub, 0, nullptr, GetParam());
    EXPECT_TRUE(rank.Train());
    const EpochSums& sums = rank.loop.state.sums;
    return sums.loss / static_cast<double>(sums.examples);
  }
};

// No cross-entropy is below the entropy of its targets; without smoothing, that is 0.
TEST_P(LabelSmoothingTest, BoundsTheTrainingLossFromBelow) {
  const double label = 0.4 + 0.6 / 3, other = 0.6 / 3;
  const double entropy = -label * std::log(label) - 2 * other * std::log(other);
  EXPECT_GT(MeanTrainingLoss(0.6), entropy);
  EXPECT_LT(MeanTrainingLoss(0), entropy);
}

INSTANTIATE_TEST_SUITE_P(Devices, LabelSmoothingTest, ::testing::ValuesIn(kDevices),
                         [](const auto& device) { return TestName(device.param); });

}  // namespace
}  // namespace lockstep::train
