#include "trainer/optim/learning_rate.h"

#include <gtest/gtest.h>

#include <vector>

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

struct RateCase {
  const char* what;
  api::LearningRateScheduleSpec schedule;
  std::int64_t step, total_steps;
  double expected;  // of a base of 1
};

// Each line is a value that the formula of Keras' schedule gives by hand.
TEST(LearningRateTest, TableOfSchedules) {
  using enum api::ScheduleType;
  const api::LearningRateScheduleSpec step{.type = kStep, .factor = 0.5, .every_steps = 10};
  const api::LearningRateScheduleSpec exponential{
      .type = kExponential, .factor = 0.25, .every_steps = 10};
  const api::LearningRateScheduleSpec line{.type = kPolynomial, .final_fraction = 0.2};
  const api::LearningRateScheduleSpec square{.type = kPolynomial, .power = 2};
  const api::LearningRateScheduleSpec root{
      .type = kPolynomial, .final_fraction = 0.5, .power = 0.5};
  const auto warm = [](api::LearningRateScheduleSpec schedule) {
    schedule.warmup_steps = 4;
    return schedule;
  };
  const std::vector<RateCase> cases = {
      {"step begins at the base", step, 0, 100, 1},
      {"step stays until everySteps are done", step, 9, 100, 1},
      {"step falls at everySteps", step, 10, 100, 0.5},
      {"step falls again", step, 29, 100, 0.25},
      {"step does not depend on the total", step, 29, 30, 0.25},
      {"step goes on beyond the total", step, 30, 20, 0.125},
      {"step counts from the end of the warm-up", warm(step), 13, 100, 1},
      {"step counts from the end of the warm-up", warm(step), 14, 100, 0.5},
      {"exponential begins at the base", exponential, 0, 100, 1},
      {"exponential falls little by little", exponential, 5, 100, 0.5},
      {"exponential has applied the factor once", exponential, 10, 100, 0.25},
      {"exponential counts from the end of the warm-up", warm(exponential), 9, 100, 0.5},
      {"a factor of 1 changes nothing", {.type = kStep, .factor = 1, .every_steps = 1}, 7, 9, 1},
      {"polynomial begins at the base", line, 0, 101, 1},
      {"polynomial is a straight line", line, 25, 101, 0.8},
      {"polynomial ends at the final fraction", line, 100, 101, 0.2},
      {"polynomial stays at its end", line, 500, 101, 0.2},
      {"polynomial begins after the warm-up", warm(line), 4, 105, 1},
      {"polynomial is between warm-up and end", warm(line), 54, 105, 0.6},
      {"polynomial of power 2", square, 50, 101, 0.25},
      {"polynomial of power 2 ends at 0", square, 100, 101, 0},
      {"polynomial of a root", root, 75, 101, 0.75},
      {"warm-up comes before step", warm(step), 1, 100, 0.5},
      {"warm-up comes before exponential", warm(exponential), 2, 100, 0.75},
      {"warm-up comes before polynomial", warm(line), 0, 100, 0.25},
  };
  for (const RateCase& c : cases) {
    EXPECT_NEAR(LearningRateAt(c.schedule, 1, c.step, c.total_steps), c.expected, 1e-12)
        << c.what << ", step " << c.step;
    EXPECT_NEAR(LearningRateAt(c.schedule, kBase, c.step, c.total_steps), kBase * c.expected, 1e-12)
        << c.what << ", step " << c.step;
  }
}

TEST(LearningRateTest, ScheduleShorterThanItsWarmUpIsDefined) {
  const api::LearningRateScheduleSpec schedule{.type = api::ScheduleType::kCosine,
                                               .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 4, 5), kBase / 2);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 10, 5), kBase);
}

// What the formula of PyTorch's OneCycleLR gives with its defaults, computed by other code. The
// rise may end between two steps, or before the first.
TEST(LearningRateTest, OneCycleIsThatOfPyTorch) {
  const api::LearningRateScheduleSpec schedule{.type = api::ScheduleType::kOneCycle};
  const auto expect = [&](std::int64_t total, const std::vector<double>& rates) {
    for (std::size_t step = 0; step < rates.size(); ++step) {
      const double rate = LearningRateAt(schedule, kBase, static_cast<std::int64_t>(step), total);
      EXPECT_NEAR(rate, kBase * rates[step], 1e-12) << "step " << step << " of " << total;
    }
  };
  expect(10, {0.04, 0.52, 1.0, 0.9504846320134737, 0.8117456539497631, 0.6112620219362893,
              0.38874197806371075, 0.18825834605023697, 0.049519367986526286, 4e-06, 4e-06});
  expect(7, {0.04, 0.9805566273349586, 0.9190443762697106, 0.6726838364805451, 0.35773877573965707,
             0.0992967918932656, 4e-06});
  expect(3, {0.9944154354509117, 0.46263710266697505, 4e-06});
  expect(1, {4e-06, 4e-06});
  EXPECT_NEAR(LearningRateAt(schedule, 1, 10, 100), 0.29516394846410077, 1e-12);
  EXPECT_NEAR(LearningRateAt(schedule, 1, 64, 100), 0.500002, 1e-12);
}

}  // namespace
}  // namespace lockstep::train
