#include "api/v1/test_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "api/v1/enum_names.h"

namespace lockstep::api {
namespace {

TEST(BestMetricTest, StandsForTheNumberOfItsName) {
  const TestMetrics named = {{TestMetric::kAuc, 0.75}, {TestMetric::kMeanSquaredError, 4}};
  const auto number = [&](BestMetric best) { return NumberOf(best, /*loss=*/2, 0.5, named); };
  EXPECT_EQ(number(BestMetric::kLoss), 2);
  EXPECT_EQ(number(BestMetric::kAccuracy), 0.5);
  EXPECT_EQ(number(BestMetric::kMeanAbsoluteError), 0.5);
  EXPECT_EQ(number(BestMetric::kAuc), 0.75);
  EXPECT_EQ(number(BestMetric::kMeanSquaredError), 4);
  EXPECT_TRUE(std::isnan(number(BestMetric::kRecall)));
}

TEST(BestMetricTest, OnlyOfALossAndOfErrorsLessIsBetter) {
  for (const auto& [metric, name] : kEnumNames<BestMetric>) {
    const bool is_error = name == "Loss" || name.ends_with("Error");
    EXPECT_EQ(IsBetterHigher(metric), !is_error) << name;
  }
}

}  // namespace
}  // namespace lockstep::api
