#include "trainer/check/check_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<float>;

TEST(DifferenceTest, IsRelativeToTheNorm) {
  const Values expected = {3, 0, 4}, found = {3, 0.5f, 4};
  const Difference difference = Compare(found, expected);
  EXPECT_DOUBLE_EQ(difference.error, 0.1);
  EXPECT_DOUBLE_EQ(difference.of_element, 0.125);
  EXPECT_EQ(difference.element, 1u);
  EXPECT_EQ(Compare(expected, expected).error, 0);
}

TEST(DifferenceTest, IsInfiniteWhereANumberIsMissing) {
  const Values expected = {3, 0, 4};
  const Difference difference = Compare(Values{3, 0, NAN}, expected);
  EXPECT_TRUE(std::isinf(difference.error));
  EXPECT_EQ(difference.element, 2u);
  EXPECT_TRUE(std::isinf(Compare(Values{3, 0}, expected).error));
  EXPECT_TRUE(std::isinf(Compare(Values{3, 0, INFINITY}, expected).error));
}

TEST(DifferenceTest, OfWhatIsNearlyZeroIsNotBlownUp) {
  EXPECT_LT(Compare(Values{1e-9f, 0}, Values{0, 0}).error, 1e-5);
}

class CheckCaseTest : public ::testing::Test {
 protected:
  std::string Problem() const {
    return group_.faults.size() == 1 ? group_.faults[0].problem : "not one fault";
  }
  CheckGroup group_{.name = "Conv2D", .type = "float32", .tolerance = 1e-3};
  CheckCase case_{group_, "Odd", "[1,2]"};
};

TEST_F(CheckCaseTest, KeepsTheWorstError) {
  case_.Close("y", Values{1.0001f}, Values{1});
  case_.Close("dx", Values{1.0002f}, Values{1});
  case_.Close("dy", Values{1}, Values{1});
  EXPECT_TRUE(group_.faults.empty());
  EXPECT_NEAR(group_.worst, 2e-4, 1e-6);
  EXPECT_EQ(group_.worst_case, "Odd");
  EXPECT_EQ(group_.cases, 1);
}

TEST_F(CheckCaseTest, NamesTheElementThatIsWrong) {
  case_.Close("y", Values{1, 2.5f}, Values{1, 2});
  EXPECT_THAT(Problem(), HasSubstr("y[1] is 2.5, expected 2; the error is 0.22 of the norm"));
  EXPECT_EQ(group_.faults[0].test_case, "Odd");
  EXPECT_EQ(group_.faults[0].input, "[1,2]");
}

// In a large tensor, the norm alone would not show it.
TEST_F(CheckCaseTest, FindsOneWrongElementAmongMany) {
  Values expected(1'000'000, 1.0f), found = expected;
  found[77] = 1.1f;
  case_.Close("y", found, expected);
  EXPECT_LT(group_.worst, group_.tolerance);
  EXPECT_THAT(Problem(), HasSubstr("y[77] is 1.1"));
}

TEST_F(CheckCaseTest, FindsOtherBits) {
  case_.Same("y", Values{0.0f}, Values{-0.0f});
  EXPECT_THAT(Problem(), HasSubstr("y[0] is 0, expected -0, the same bits"));
}

TEST_F(CheckCaseTest, EntersWhatTheDeviceRefuses) {
  case_.Run([] { throw DeviceError("no algorithm"); });
  EXPECT_EQ(Problem(), "no algorithm");
}

}  // namespace
}  // namespace lockstep::train
