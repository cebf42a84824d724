#include "trainer/observe/progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

namespace lockstep::train {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ManualClock final : public Clock {
 public:
  Time Now() const override { return Time(elapsed_); }
  SteadyTime SteadyNow() const override { return SteadyTime(elapsed_); }
  void Advance(Duration duration) { elapsed_ += duration; }

 private:
  Duration elapsed_ = seconds(1000);
};

class ProgressTest : public ::testing::Test {
 protected:
  void Steps(ProgressMeter& meter, int count, Duration each, const EpochSums& sums) {
    for (int i = 0; i < count; ++i) {
      clock_.Advance(each);
      meter.AddStep(sums);
    }
  }
  ManualClock clock_;
};

TEST_F(ProgressTest, BeforeTheFirstStepThereAreNoResults) {
  const api::Progress progress = ProgressMeter(clock_, 100, 10).Get();
  EXPECT_EQ(progress.step, 0);
  EXPECT_EQ(progress.total_steps, 100);
  EXPECT_EQ(progress.examples_per_second, 0);
  EXPECT_FALSE(progress.loss || progress.accuracy || progress.estimated_remaining_seconds ||
               progress.test_accuracy);
  EXPECT_EQ(progress.last_checkpoint_step, -1);
}

TEST_F(ProgressTest, ReportsSpeedRemainingTimeAndMeans) {
  ProgressMeter meter(clock_, 100, 10);
  Steps(meter, 5, milliseconds(500), {.examples = 64, .loss = 32, .correct = 48});
  const api::Progress progress = meter.Get();
  EXPECT_EQ(progress.step, 5);
  EXPECT_DOUBLE_EQ(progress.epoch, 0.5);
  EXPECT_DOUBLE_EQ(*progress.loss, 0.5);
  EXPECT_DOUBLE_EQ(*progress.accuracy, 0.75);
  EXPECT_DOUBLE_EQ(progress.examples_per_second, 128);
  EXPECT_DOUBLE_EQ(*progress.estimated_remaining_seconds, 95 * 0.5);
  EXPECT_EQ(progress.update_time, clock_.Now());
}

TEST_F(ProgressTest, MeansStartOverWithEveryEpoch) {
  ProgressMeter meter(clock_, 100, 4);
  Steps(meter, 4, seconds(1), {.examples = 10, .loss = 20, .correct = 1});
  EXPECT_DOUBLE_EQ(*meter.Get().loss,
                   2.0);  // the mean of the whole epoch, until the next one begins
  Steps(meter, 1, seconds(1), {.examples = 10, .loss = 5, .correct = 10});
  EXPECT_DOUBLE_EQ(*meter.Get().loss, 0.5);
  EXPECT_DOUBLE_EQ(*meter.Get().accuracy, 1.0);
}

TEST_F(ProgressTest, RecentSpeedExcludesTheSlowStart) {
  ProgressMeter meter(clock_, 1000, 1000);
  Steps(meter, 100, seconds(1), {.examples = 10});
  Steps(meter, 200, milliseconds(100), {.examples = 10});
  EXPECT_NEAR(meter.RecentExamplesPerSecond(), 100, 1e-9);
  EXPECT_NEAR(*meter.Get().estimated_remaining_seconds, 70, 1e-9);
}

TEST_F(ProgressTest, TheFirstStepCountsOnlyWhileItIsTheOnlyOne) {
  ProgressMeter meter(clock_, 12, 12);
  Steps(meter, 1, seconds(20), {.examples = 10});
  EXPECT_DOUBLE_EQ(meter.RecentExamplesPerSecond(), 0.5);
  Steps(meter, 1, seconds(1), {.examples = 10});
  EXPECT_DOUBLE_EQ(meter.RecentExamplesPerSecond(), 10);
  EXPECT_DOUBLE_EQ(*meter.Get().estimated_remaining_seconds, 10);
}

TEST_F(ProgressTest, SlowStepsAfterManyFastOnesLowerTheSpeedAtOnce) {
  ProgressMeter meter(clock_, 1000, 1000);
  Steps(meter, 200, milliseconds(10), {.examples = 10});
  Steps(meter, 5, seconds(2), {.examples = 10});
  EXPECT_DOUBLE_EQ(meter.RecentExamplesPerSecond(), 5) << "over the last ten seconds";
  Steps(meter, 4, seconds(20), {.examples = 10});
  EXPECT_DOUBLE_EQ(meter.RecentExamplesPerSecond(), 0.5)
      << "over four steps, which take longer than that";
  EXPECT_DOUBLE_EQ(*meter.Get().estimated_remaining_seconds, (1000 - 209) * 20.0);
}

TEST_F(ProgressTest, AShortPauseCountsInProportionToItsLength) {
  ProgressMeter meter(clock_, 10000, 10000);
  Steps(meter, 2000, milliseconds(5), {.examples = 10});
  Steps(meter, 1, seconds(2), {.examples = 10});
  EXPECT_NEAR(meter.RecentExamplesPerSecond(), 1600, 50) << "2 of the last 10 seconds were lost";
}

TEST_F(ProgressTest, EvaluationDoesNotAffectTheSpeed) {
  ProgressMeter meter(clock_, 100, 10);
  Steps(meter, 5, seconds(1), {.examples = 10});
  clock_.Advance(seconds(5));
  meter.ExcludeTimeSinceLastMark();
  Steps(meter, 5, seconds(1), {.examples = 10});
  meter.SetEvaluation(0.1, 0.98);
  meter.SetCheckpoint(8);
  const api::Progress progress = meter.Get();
  EXPECT_DOUBLE_EQ(progress.examples_per_second, 10);
  EXPECT_DOUBLE_EQ(*progress.test_accuracy, 0.98);
  EXPECT_DOUBLE_EQ(*progress.test_loss, 0.1);
  EXPECT_EQ(progress.last_checkpoint_step, 8);
}

TEST_F(ProgressTest, ANonFiniteLossIsOmitted) {
  ProgressMeter meter(clock_, 100, 10);
  Steps(meter, 1, seconds(1), {.examples = 10, .loss = std::nan(""), .correct = 3});
  EXPECT_FALSE(meter.Get().loss);
  EXPECT_DOUBLE_EQ(*meter.Get().accuracy, 0.3);
}

TEST_F(ProgressTest, AResumedEpochHasTheMeanOfTheWholeEpoch) {
  ProgressMeter meter(clock_, 100, 10, 13);
  meter.Restore(15, {.examples = 50, .loss = 100, .correct = 0});
  Steps(meter, 5, seconds(1), {.examples = 10, .loss = 0, .correct = 10});
  const api::Progress progress = meter.Get();
  EXPECT_EQ(progress.step, 20);
  EXPECT_DOUBLE_EQ(*progress.loss, 1.0);
  EXPECT_DOUBLE_EQ(*progress.accuracy, 0.5);
  EXPECT_DOUBLE_EQ(progress.examples_per_second, 10);
  EXPECT_DOUBLE_EQ(*progress.estimated_remaining_seconds, 80);
}

}  // namespace
}  // namespace lockstep::train
