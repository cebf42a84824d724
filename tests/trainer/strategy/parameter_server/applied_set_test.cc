#include "trainer/strategy/parameter_server/applied_set.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::train {
namespace {

struct Case {
  std::string name;
  std::vector<std::int64_t> steps;  // added in this order, to a set of all steps below 10
  std::vector<bool> added;
  std::int64_t low_water;
  std::size_t beyond;
};

class AppliedSetTest : public ::testing::TestWithParam<Case> {};

TEST_P(AppliedSetTest, EachStepIsAddedOnceAndTheMarkFollows) {
  AppliedSet set(10);
  for (std::size_t i = 0; i < GetParam().steps.size(); ++i) {
    EXPECT_EQ(set.Add(GetParam().steps[i]), GetParam().added[i]) << "step " << GetParam().steps[i];
    EXPECT_TRUE(set.Contains(GetParam().steps[i]));
  }
  EXPECT_EQ(set.low_water(), GetParam().low_water);
  EXPECT_EQ(set.beyond(), GetParam().beyond);
  EXPECT_TRUE(set.Contains(GetParam().low_water - 1));
  EXPECT_FALSE(set.Contains(GetParam().low_water));
}

INSTANTIATE_TEST_SUITE_P(
    Orders, AppliedSetTest,
    ::testing::Values(
        Case{"Nothing", {}, {}, 10, 0}, Case{"InOrder", {10, 11}, {true, true}, 12, 0},
        Case{"BelowTheMark", {9, 0, -1}, {false, false, false}, 10, 0},
        Case{"BeyondAGap", {12, 11}, {true, true}, 10, 2},
        Case{"TheGapIsFilled", {12, 11, 14, 10}, {true, true, true, true}, 13, 1},
        Case{"RepeatedBeyondAGap", {12, 12}, {true, false}, 10, 1},
        Case{"RepeatedBelowTheNewMark", {11, 10, 11, 10}, {true, true, false, false}, 12, 0}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep::train
