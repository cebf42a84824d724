#include "operator/cli/top/step_times.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

RankMetrics MetricsOf(int rank, double steps, PhaseSeconds spent, int world = 2) {
  RankMetrics metrics;
  metrics.rank = rank;
  metrics.replica = "worker-" + std::to_string(rank);
  metrics.world = world;
  metrics.step = metrics.steps_done = steps;
  metrics.seconds = spent;
  return metrics;
}

//                      input, compute, communication, optimizer, checkpoint, …, idle
TEST(StepTimesTest, AStepTakesTheTimeOfItsPhases) {
  const StepTimes times = TimesBetween({MetricsOf(0, 10, {1, 5, 1, 1, 0, 0, 0, 0, 7})},
                                       {MetricsOf(0, 20, {2, 10, 2, 1.5, 0.5, 0, 0, 0, 9})});
  ASSERT_EQ(times.ranks.size(), 1u);
  const RankTimes& rank = times.ranks[0];
  EXPECT_EQ(rank.steps, 10);
  EXPECT_EQ(rank.seconds, 10);
  EXPECT_EQ(rank.StepSeconds(), 1);
  EXPECT_EQ(rank.Share(1), 0.5);
  EXPECT_EQ(rank.Share(8), 0.2);
  EXPECT_EQ(times.total.StepSeconds(), 1);
}

TEST(StepTimesTest, AMissingRankLowersTheGoodput) {
  const StepTimes times = TimesBetween(
      {MetricsOf(0, 1, {})}, {MetricsOf(0, 2, {0, 6, 2, 0, 0, 0, 0, 0, 2}), MetricsOf(1, 2, {})});
  ASSERT_TRUE(times.goodput);
  EXPECT_DOUBLE_EQ(*times.goodput, 0.4);
  EXPECT_FALSE(TimesBetween({}, {MetricsOf(0, 2, {0, 6})}).goodput) << "there is no look before";
}

TEST(StepTimesTest, WhomTheOthersWaitForIsAStraggler) {
  const std::vector<RankMetrics> before = {MetricsOf(0, 0, {}, 3), MetricsOf(1, 0, {}, 3),
                                           MetricsOf(2, 0, {}, 3)};
  const StepTimes times =
      TimesBetween(before, {MetricsOf(0, 10, {0, 10, 5}, 3), MetricsOf(1, 10, {0, 11, 4}, 3),
                            MetricsOf(2, 10, {4, 11, 0}, 3)});
  EXPECT_FALSE(times.ranks[0].slow);
  EXPECT_FALSE(times.ranks[1].slow);
  ASSERT_TRUE(times.ranks[2].slow);
  EXPECT_NEAR(*times.ranks[2].slow, 15.0 / 11 - 1, 1e-9);
}

TEST(StepTimesTest, OfTwoRanksTheSlowerOneIsComparedWithTheOther) {
  const StepTimes times =
      TimesBetween({MetricsOf(0, 0, {}), MetricsOf(1, 0, {})},
                   {MetricsOf(0, 10, {0, 10, 3}), MetricsOf(1, 10, {0, 13, 0})});
  EXPECT_FALSE(times.ranks[0].slow);
  ASSERT_TRUE(times.ranks[1].slow);
  EXPECT_NEAR(*times.ranks[1].slow, 0.3, 1e-9);
}

TEST(StepTimesTest, AStageIsComparedWithItselfOnly) {
  std::vector<RankMetrics> before, after;
  for (int rank = 0; rank < 4; ++rank) {
    before.push_back(MetricsOf(rank, 0, {}, 4));
    after.push_back(MetricsOf(rank, 10, {0, rank % 2 == 0 ? 10.0 : 30.0}, 4));
    before.back().stage = after.back().stage = rank % 2;
  }
  after[3].seconds[kCompute] = 45;
  const StepTimes times = TimesBetween(before, after);
  EXPECT_FALSE(times.ranks[0].slow);
  EXPECT_FALSE(times.ranks[1].slow);
  EXPECT_FALSE(times.ranks[2].slow);
  ASSERT_TRUE(times.ranks[3].slow);
  EXPECT_NEAR(*times.ranks[3].slow, 0.5, 1e-9);
}

TEST(StepTimesTest, VariantsThatTrainAloneAreNoStragglers) {
  const StepTimes times = TimesBetween(
      {MetricsOf(0, 0, {}, 1), MetricsOf(1, 0, {}, 1), MetricsOf(2, 0, {}, 1)},
      {MetricsOf(0, 10, {0, 10}, 1), MetricsOf(1, 10, {0, 10}, 1), MetricsOf(2, 2, {0, 10}, 1)});
  for (const RankTimes& rank : times.ranks) EXPECT_FALSE(rank.slow);
}

TEST(StepTimesTest, ARankThatBeganAgainHasNoTimes) {
  RankMetrics moved = MetricsOf(1, 20, {0, 20});
  moved.replica = "worker-5";
  const StepTimes times = TimesBetween({MetricsOf(0, 10, {0, 10}), MetricsOf(1, 10, {0, 10})},
                                       {MetricsOf(0, 3, {0, 12}), moved});
  EXPECT_EQ(times.ranks[0].seconds, 0);
  EXPECT_FALSE(times.ranks[0].StepSeconds());
  EXPECT_EQ(times.ranks[1].seconds, 0) << "another pod's";
}

}  // namespace
}  // namespace lockstep::cli
