#include "operator/cli/top/top_text.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

RankMetrics Rank(int rank, int world, double step, double total) {
  RankMetrics metrics;
  metrics.rank = rank;
  metrics.world = world;
  metrics.step = step;
  metrics.total_steps = total;
  metrics.loss = rank;
  metrics.remaining_seconds = total - step;
  return metrics;
}

JobTop ProgressOf(const std::vector<RankMetrics>& ranks) {
  JobTop top;
  SetProgress(ranks, {}, top);
  return top;
}

TEST(TopTextTest, ProgressOfRanksThatTrainTogetherIsThatOfTheFurthest) {
  const JobTop top = ProgressOf({Rank(0, 2, 10, 50), Rank(1, 2, 11, 50)});
  EXPECT_EQ(top.step, 11);
  EXPECT_EQ(top.total_steps, 50);
  EXPECT_EQ(top.loss, 0);
}

TEST(TopTextTest, ProgressOfVariantsIsThatOfTheOneThatWillEndLast) {
  const JobTop top = ProgressOf({Rank(0, 1, 50, 50), Rank(1, 1, 900, 10000), Rank(2, 1, 0, 0)});
  EXPECT_EQ(top.step, 900);
  EXPECT_EQ(top.total_steps, 10000);
  EXPECT_EQ(top.loss, 1);
  EXPECT_EQ(top.remaining_seconds, 9100);
}

}  // namespace
}  // namespace lockstep::cli
