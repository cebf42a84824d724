#include "trainer/optim/learning_rate.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

constexpr double kBase = 0.4;

TEST(LearningRateTest, ConstantStaysConstant) {
  for (const std::int64_t step : {0, 1, 99, 1000}) {
    EXPECT_EQ(LearningRateAt({}, kBase, step, 100), kBase);
  }
}

TEST(LearningRateTest, WarmUpRisesLinearlyAndNeverWastesAStep) {
  const api::LearningRateScheduleSpec schedule{.warmup_steps = 4};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 0, 100), 0.1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 1, 100), 0.2);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 3, 100), kBase);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 4, 100), kBase);
}

TEST(LearningRateTest, CosineFallsFromBaseToTheFinalFraction) {
  const api::LearningRateScheduleSpec schedule{.type = api::ScheduleType::kCosine,
                                               .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 0, 101), kBase);
  EXPECT_NEAR(LearningRateAt(schedule, kBase, 50, 101), kBase * 0.55, 1e-12);
  EXPECT_NEAR(LearningRateAt(schedule, kBase, 100, 101), kBase * 0.1, 1e-12);
  double previous = kBase;
  for (std::int64_t step = 1; step <= 100; ++step) {
    const double rate = LearningRateAt(schedule, kBase, step, 101);
    EXPECT_LT(rate, previous) << step;
    previous = rate;
  }
}

TEST(LearningRateTest, CosineStaysAtItsEnd) {
  const api::LearningRateScheduleSpec schedule{.type = api::ScheduleType::kCosine};
  EXPECT_NEAR(LearningRateAt(schedule, kBase, 100, 101), 0, 1e-12);
  EXPECT_NEAR(LearningRateAt(schedule, kBase, 5000, 101), 0, 1e-12);
}

TEST(LearningRateTest, CosineBeginsAfterTheWarmUp) {
  const api::LearningRateScheduleSpec schedule{.type = api::ScheduleType::kCosine,
                                               .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 9, 111), kBase);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 10, 111), kBase);
  EXPECT_NEAR(LearningRateAt(schedule, kBase, 60, 111), kBase / 2, 1e-12);
  EXPECT_NEAR(LearningRateAt(schedule, kBase, 110, 111), 0, 1e-12);
}

TEST(LearningRateTest, ScheduleShorterThanItsWarmUpIsDefined) {
  const api::LearningRateScheduleSpec schedule{.type = api::ScheduleType::kCosine,
                                               .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 4, 5), kBase / 2);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 10, 5), kBase);
}

}  // namespace
}  // namespace lockstep::train
