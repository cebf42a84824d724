#include "trainer/observe/evaluator_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

TEST(EvaluatorMetricsTest, ALineIsDecodedAsItWasEncoded) {
  const auto decoded = DecodeEvaluatorMetrics(
      EncodeEvaluatorMetrics({.step = 9,
                              .test_loss = 0.5,
                              .test_mean_absolute_error = std::numeric_limits<double>::infinity(),
                              .test_metrics = {{api::TestMetric::kAuc, 0.75}},
                              .evaluations = 3,
                              .batches = 40,
                              .skipped = 2,
                              .leader_step = 12}));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->step, 9);
  EXPECT_EQ(decoded->test_loss, 0.5);
  EXPECT_TRUE(std::isnan(decoded->test_accuracy)) << "unknown";
  EXPECT_TRUE(std::isnan(decoded->test_mean_absolute_error)) << "JSON has no infinity";
  EXPECT_EQ(decoded->test_metrics, (api::TestMetrics{{api::TestMetric::kAuc, 0.75}}));
  EXPECT_EQ(decoded->evaluations, 3);
  EXPECT_EQ(decoded->batches, 40);
  EXPECT_EQ(decoded->skipped, 2);
  EXPECT_EQ(decoded->leader_step, 12);
  EXPECT_EQ(DecodeEvaluatorMetrics(EncodeEvaluatorMetrics({}))->step, -1);
}

TEST(EvaluatorMetricsTest, AMalformedLineIsRefused) {
  const std::string good = EncodeEvaluatorMetrics({});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    return line.replace(line.find(from), from.size(), to);
  };
  const struct {
    std::string line, reason;
  } cases[] = {
      {"", "not a JSON object"},
      {with("{", "{\"more\":1,"), "found 10 fields, expected 9"},
      {with("batches", "batch"), "metrics.batches: is missing"},
      {with("\"step\":-1", "\"step\":-2"),
       "metrics.step: found -2, expected an integer of at least -1"},
      {with("\"step\":-1", "\"step\":9223372036854775808"), "metrics.step: found"},
      {with("\"skipped\":0", "\"skipped\":0.5"), "metrics.skipped: found 0.5"},
      {with("testLoss", "loss"), "metrics.testLoss: is missing"},
      {with("\"testLoss\":null", "\"testLoss\":\"low\""), "metrics.testLoss: found"},
  };
  for (const auto& [line, reason] : cases) {
    const auto decoded = DecodeEvaluatorMetrics(line);
    EXPECT_TRUE(absl::IsInvalidArgument(decoded.status())) << line;
    EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(reason)) << line;
  }
}

}  // namespace
}  // namespace lockstep::train
