#include "trainer/train/evaluation_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "api/v1/enum_names.h"
#include "tests/trainer/backend/golden_file.h"

namespace lockstep::train {
namespace {

using enum api::TestMetric;

api::EvaluationSpec Named(std::vector<api::TestMetric> metrics, int top_k = 5) {
  return {.metrics = std::move(metrics), .top_k = top_k};
}

// Rows of one output, all of which count.
api::TestMetrics OfDecisions(const std::vector<float>& logits, const std::vector<float>& targets) {
  EvaluationMetrics metrics(Named({kAuc, kPrecision, kRecall}));
  const std::vector<float> weights(logits.size(), 1);
  metrics.Add({.outputs = logits, .labels = {}, .targets = targets, .weights = weights});
  return metrics.Results();
}

TEST(EvaluationMetricsTest, ASampleIsRightAmongTheTopKIfFewerThanKLogitsAreLarger) {
  // The ranks of the samples' own classes: 1, 2, 3; the last row is padding.
  const std::vector<float> logits = {3, 2, 1, 2, 3, 1, 2, 3, 1, 9, 0, 0};
  const std::vector<std::int32_t> labels = {0, 0, 2, 0};
  const std::vector<float> weights = {1, 1, 1, 0};
  const auto accuracy = [&](int top_k) {
    EvaluationMetrics metrics(Named({kTopKCategoricalAccuracy}, top_k));
    metrics.Add({.outputs = logits, .labels = labels, .targets = {}, .weights = weights});
    return metrics.Results().at(kTopKCategoricalAccuracy);
  };
  EXPECT_EQ(accuracy(1), 1.0 / 3);
  EXPECT_EQ(accuracy(2), 2.0 / 3);
}

TEST(EvaluationMetricsTest, ALabelOfNumbersIsTheClassOfTheLargest) {
  const std::vector<float> logits = {3, 2, 1, 3, 2, 1, 1, 2, 3};
  const std::vector<float> targets = {1, 0, 0, 0, 1, 0, 0.25, 0.25, 0.5}, weights = {1, 1, 1};
  EvaluationMetrics metrics(Named({kTopKCategoricalAccuracy}, 1));
  metrics.Add({.outputs = logits, .labels = {}, .targets = targets, .weights = weights});
  EXPECT_EQ(metrics.Results().at(kTopKCategoricalAccuracy), 2.0 / 3);
}

TEST(EvaluationMetricsTest, AnAreaIsThatOfTheTrapezoids) {
  EXPECT_EQ(OfDecisions({-2, -1, 1, 2}, {0, 0, 1, 1}).at(kAuc), 1);
  EXPECT_EQ(OfDecisions({-2, -1, 1, 2}, {1, 1, 0, 0}).at(kAuc), 0);
  // Three of the four pairs of a negative and a positive are in the right order.
  EXPECT_EQ(OfDecisions({-2, -1, 1, 2}, {0, 1, 0, 1}).at(kAuc), 0.75);
  EXPECT_EQ(OfDecisions({1, 1}, {0, 1}).at(kAuc), 0.5) << "one in the same place counts half";
  EXPECT_EQ(OfDecisions({1, 2}, {1, 1}).at(kAuc), 0) << "Keras' result without negatives";
}

TEST(EvaluationMetricsTest, ProbabilitiesOfZeroAndOneAndNoneAtAllHaveAPlace) {
  EXPECT_EQ(OfDecisions({-200, 200}, {0, 1}).at(kAuc), 1);
  EXPECT_EQ(OfDecisions({-200, 200}, {1, 0}).at(kAuc), 0);
  const float none = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(OfDecisions({none, 200}, {0, 1}).at(kAuc), 1) << "it counts as the least probable";
}

TEST(EvaluationMetricsTest, PrecisionAndRecallAreOfWhatIsAboveOneHalf) {
  const api::TestMetrics found = OfDecisions({2, 1, 3, -1, 0, -2}, {1, 0, 1, 1, 1, 0});
  EXPECT_EQ(found.at(kPrecision), 2.0 / 3);
  EXPECT_EQ(found.at(kRecall), 2.0 / 4) << "a probability of one half is none above it";
  const api::TestMetrics none = OfDecisions({-1, -1}, {0, 0});
  EXPECT_EQ(none.at(kPrecision), 0);
  EXPECT_EQ(none.at(kRecall), 0);
}

TEST(EvaluationMetricsTest, ErrorsAreMeansOverAllNumbers) {
  EvaluationMetrics metrics(Named({kMeanSquaredError, kRootMeanSquaredError}));
  const std::vector<float> given = {1, 2, 3, 4}, targets = {1, 0, 0, 1}, weights = {1, 0};
  metrics.Add({.outputs = given, .labels = {}, .targets = targets, .weights = weights});
  EXPECT_EQ(metrics.Results().at(kMeanSquaredError), 2);
  EXPECT_EQ(metrics.Results().at(kRootMeanSquaredError), std::sqrt(2.0));
}

TEST(EvaluationMetricsTest, WhatIsNotFiniteHasNoResult) {
  EvaluationMetrics metrics(Named({kMeanSquaredError}));
  const std::vector<float> given = {std::numeric_limits<float>::quiet_NaN()}, other = {1};
  metrics.Add({.outputs = given, .labels = {}, .targets = other, .weights = other});
  EXPECT_TRUE(metrics.Results().empty());
}

TEST(EvaluationMetricsTest, CountsOfManyRowsAreSummedExactly) {
  const std::vector<float> given(14'001, 1), weights(14'001, 1);
  std::vector<float> targets(14'001, 0);
  std::fill_n(targets.begin(), 9001, 1.0f);
  EvaluationMetrics metrics(Named({kPrecision}));
  metrics.Add({.outputs = given, .labels = {}, .targets = targets, .weights = weights});
  metrics.SetTotals(metrics.Totals());
  EXPECT_EQ(metrics.Results().at(kPrecision), 9001.0 / 14'001);
}

TEST(EvaluationMetricsTest, NothingIsSummedWithoutNames) {
  EvaluationMetrics none(Named({}));
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(none.Totals().empty());
  none.SetTotals({});
  EXPECT_TRUE(none.Results().empty());
}

TEST(EvaluationMetricsTest, TopKIsLessThanTheClasses) {
  EXPECT_TRUE(CheckTopK(Named({kTopKCategoricalAccuracy}, 2), 3).ok());
  EXPECT_TRUE(CheckTopK(Named({kAuc}), 1).ok()) << "its default is of no matter then";
  EXPECT_EQ(CheckTopK(Named({kTopKCategoricalAccuracy}, 3), 3).message(),
            "spec.training.evaluation.topK: found 3 with 3 classes, expected fewer than these: "
            "every sample is right among all of them");
}

// What Keras computed (tests/golden/generate_keras.py), by one rank and by two that share the rows.
class GoldenMetricsTest : public ::testing::TestWithParam<std::string> {
 protected:
  GoldenMetricsTest()
      : golden_(GoldenFile("evaluation_metrics").at(GetParam())),
        logits_(GoldenValues(golden_.at("logits"))),
        weights_(golden_.at("weights").get<std::vector<float>>()) {
    if (golden_.contains("labels")) golden_.at("labels").get_to(labels_);
    if (golden_.contains("targets")) targets_ = GoldenValues(golden_.at("targets"));
    for (const auto& [name, value] : golden_.at("results").items()) {
      spec_.metrics.push_back(*api::FindByName<api::TestMetric>(name));
      expected_[spec_.metrics.back()] = value.get<double>();
    }
    spec_.top_k = golden_.value("topK", spec_.top_k);
  }

  void Add(std::size_t begin, std::size_t end, EvaluationMetrics& metrics) const {
    const std::size_t outputs = logits_.size() / weights_.size();
    const auto rows = [&](const auto& all, std::size_t numbers) {
      return all.empty() ? std::span(all)
                         : std::span(all).subspan(begin * numbers, (end - begin) * numbers);
    };
    metrics.Add({.outputs = rows(logits_, outputs),
                 .labels = rows(labels_, 1),
                 .targets = rows(targets_, outputs),
                 .weights = rows(weights_, 1)});
  }

  void ExpectGolden(const EvaluationMetrics& metrics) const {
    const api::TestMetrics found = metrics.Results();
    ASSERT_EQ(found.size(), expected_.size());
    for (const auto& [metric, value] : expected_) {
      EXPECT_NEAR(found.at(metric), value, 1e-6 * value) << api::NameOf(metric);
    }
  }

  const nlohmann::json golden_;
  const std::vector<float> logits_, weights_;
  std::vector<std::int32_t> labels_;
  std::vector<float> targets_;
  api::EvaluationSpec spec_;
  api::TestMetrics expected_;
};

TEST_P(GoldenMetricsTest, OneRank) {
  EvaluationMetrics metrics(spec_);
  Add(0, weights_.size(), metrics);
  ExpectGolden(metrics);
}

TEST_P(GoldenMetricsTest, TheSumsOfTwoRanks) {
  EvaluationMetrics first(spec_), second(spec_);
  const std::size_t half = weights_.size() / 2;
  Add(0, half, first);
  Add(half, weights_.size(), second);
  std::vector<float> totals = first.Totals(), others = second.Totals();
  ASSERT_EQ(totals.size(), others.size());
  for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += others[i];
  for (EvaluationMetrics* rank : {&first, &second}) {
    rank->SetTotals(totals);
    ExpectGolden(*rank);
  }
}

INSTANTIATE_TEST_SUITE_P(, GoldenMetricsTest,
                         ::testing::Values("classes", "binary", "severalLabels", "numbers"));

}  // namespace
}  // namespace lockstep::train
