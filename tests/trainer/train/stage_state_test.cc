#include "trainer/train/stage_state.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace lockstep::train {
namespace {

constexpr std::int64_t kTotal = 100;

Membership MembersAt(const std::vector<std::int64_t>& steps) {
  Membership membership;
  for (const std::int64_t step : steps) membership.members.push_back({.step = step});
  return membership;
}

std::vector<int> Ranks(const std::vector<std::int64_t>& steps, int stages) {
  return RanksWithState(MembersAt(steps), stages, kTotal);
}

TEST(RanksWithStateTest, NobodyHasAny) {
  EXPECT_TRUE(Ranks({-1, -1}, 2).empty());
}

TEST(RanksWithStateTest, TheLowestRankOfEachStageHasIt) {
  EXPECT_EQ(Ranks({5, 5, 5, 5}, 2), (std::vector{0, 1}));
  EXPECT_EQ(Ranks({-1, 5, 5, 5}, 2), (std::vector{2, 1}));
  EXPECT_EQ(Ranks({5, 5, 5, 5, -1, 5}, 3), (std::vector{0, 1, 2}));
}

TEST(RanksWithStateTest, AStageThatIsLostLeavesNone) {
  EXPECT_TRUE(Ranks({5, -1}, 2).empty());
  EXPECT_TRUE(Ranks({5, -1, 5, -1}, 2).empty());
}

// Rank 0 had done one step more when its neighbour was lost.
TEST(RanksWithStateTest, AllGoBackToAStepThatAllStagesHave) {
  EXPECT_EQ(Ranks({6, 5, 5, -1}, 2), (std::vector{2, 1}));
  EXPECT_EQ(Ranks({6, 6, 5, 5}, 2), (std::vector{0, 1}));
  EXPECT_TRUE(Ranks({6, 5}, 2).empty());
}

TEST(RanksWithStateTest, StepsBeyondTheLastCountForNothing) {
  EXPECT_TRUE(Ranks({kTotal + 1, kTotal + 1}, 2).empty());
  EXPECT_EQ(Ranks({kTotal, kTotal}, 2), (std::vector{0, 1}));
}

}  // namespace
}  // namespace lockstep::train
