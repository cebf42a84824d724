// The state of optimizers that begins or is saved in other ways than that of Adam and SGD.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/train/rank.h"

namespace lockstep::train {
namespace {

class OptimizerStateTest : public ::testing::TestWithParam<std::string> {};

TEST_P(OptimizerStateTest, IsSavedAndRestoredToTheBit) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 3;
  for (const api::OptimizerSpec& spec :
       {api::OptimizerSpec{.name = "RMSprop", .learning_rate = 0.01, .momentum = 0.9},
        api::OptimizerSpec{.name = "Adagrad", .learning_rate = 0.1},
        api::OptimizerSpec{.name = "LARS", .learning_rate = 1, .momentum = 0.9},
        api::OptimizerSpec{.name = "LAMB", .learning_rate = 0.01},
        api::OptimizerSpec{.name = "Muon", .learning_rate = 0.01}}) {
    SCOPED_TRACE(spec.name);
    training.optimizer = spec;
    LocalRendezvousHub whole_hub(1);
    Rank whole(training, 1, whole_hub, 0, nullptr, GetParam());
    EXPECT_TRUE(whole.Train());
    const TempDirectory folder;
    {
      const auto store = OpenStore(folder, 1);
      LocalRendezvousHub hub(1);
      Rank killed(training, 1, hub, 0, nullptr, GetParam(), store.get());
      killed.faults.after = DiesInStep(7);
      EXPECT_EQ(killed.RunOnce().end, LoopEnd::kGenerationOver);
    }
    const auto store = OpenStore(folder, 2);
    LocalRendezvousHub hub(1);
    Rank resumed(training, 1, hub, 0, nullptr, GetParam(), store.get());
    EXPECT_TRUE(resumed.Train());
    EXPECT_EQ(resumed.loop.restored.step, 6);
    EXPECT_EQ(resumed.State(), whole.State());
    EXPECT_EQ(resumed.loop.state, whole.loop.state);
  }
}

// An accumulator that large leaves the parameters where they were; one that was zeroed would not.
TEST_P(OptimizerStateTest, ARunBeginsWithTheOptimizersOwnStart) {
  api::TrainingSpec training = SmallTraining();
  training.optimizer = {
      .name = "Adagrad", .learning_rate = 0.01, .initial_accumulator_value = 1e30};
  training.epochs.reset();
  training.steps = 3;
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0, nullptr, GetParam());
  rank.session->model().InitializeParameters();
  const std::vector<float> start = rank.Parameters();
  EXPECT_TRUE(rank.Train());
  const std::vector<float> end = rank.Parameters();
  for (std::size_t i = 0; i < start.size(); ++i) ASSERT_NEAR(end[i], start[i], 1e-9) << i;
}

INSTANTIATE_TEST_SUITE_P(Devices, OptimizerStateTest, ::testing::ValuesIn(kDevices),
                         [](const auto& device) { return TestName(device.param); });

}  // namespace
}  // namespace lockstep::train
