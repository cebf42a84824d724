// The arithmetic that data parallelism stands on: the gradients of ranks that each see a slice,
// added up, are those of one rank that sees the whole batch; padding rows count for nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/nn/tested_model.h"

namespace lockstep::train {
namespace {

const std::vector<nlohmann::json> kLayers = {
    LayerJson("Conv2D",
              {{"filters", 4}, {"kernelSize", 3}, {"padding", "same"}, {"activation", "relu"}}),
    LayerJson("MaxPooling2D"),
    LayerJson("Dropout", {{"rate", 0.3}}),
    LayerJson("Flatten"),
    LayerJson("Dense", {{"units", 9}, {"activation", "relu"}}),
    LayerJson("Dense", {{"units", 3}})};
const Shape kImage = {2, 6, 6};
constexpr std::int64_t kExamples = 11, kLabels = 3, kPosition = 700;

Batch FullBatch() {
  Batch batch = RandomBatch(kExamples, kImage, kLabels, 1);
  batch.weights[4] = 0.5f;  // weighted samples are no padding
  return batch;
}

struct Sums {
  LossTotals result;
  std::vector<double> gradients;
};

// `ranks` ranks with ceil(kExamples / ranks) rows each, the last ones padded.
Sums SumOverRanks(std::int64_t ranks, float padding) {
  const Batch full = FullBatch();
  const std::int64_t size = (kExamples + ranks - 1) / ranks;
  Sums sums;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    TestedModel tested(kLayers, {.batch = size, .input = kImage, .classes = kLabels, .seed = 5});
    const std::int64_t begin = std::min(kExamples, rank * size);
    const std::int64_t valid = std::min(size, kExamples - begin);
    const LossTotals result =
        tested.Step(Slice(full, begin, valid, size, padding),
                    {.valid = valid,
                     .step = 3,
                     .first_position = static_cast<std::uint64_t>(kPosition + begin)},
                    1.0f / static_cast<float>(kExamples));
    sums.result.loss += result.loss;
    sums.result.correct += result.correct;
    sums.gradients.resize(tested.model().gradients().size());
    for (std::size_t i = 0; i < sums.gradients.size(); ++i) {
      sums.gradients[i] += tested.model().gradients()[i];
    }
  }
  return sums;
}

void ExpectSame(const Sums& found, const Sums& expected) {
  EXPECT_NEAR(found.result.loss, expected.result.loss, 1e-12 * expected.result.loss);
  EXPECT_EQ(found.result.correct, expected.result.correct);
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  double largest = 0;
  for (const double gradient : expected.gradients) largest = std::max(largest, std::abs(gradient));
  EXPECT_GT(largest, 0.01);
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    ASSERT_NEAR(found.gradients[i], expected.gradients[i], 1e-6 * largest) << i;
  }
}

class MicroRanksTest : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(MicroRanksTest, SummedGradientsAreThoseOfTheWholeBatch) {
  ExpectSame(SumOverRanks(GetParam(), 0), SumOverRanks(1, 0));
}

TEST_P(MicroRanksTest, WhatStandsInPaddingRowsDoesNotMatter) {
  const Sums zeros = SumOverRanks(GetParam(), 0), large = SumOverRanks(GetParam(), 1e6f);
  EXPECT_EQ(zeros.result.loss, large.result.loss);
  EXPECT_EQ(zeros.gradients, large.gradients);
}

// 11 rows: 2 ranks leave 1 row of padding, 4 leave 1, 5 leave 4 (one rank has 2 of 3, one none),
// 8 leave ranks with nothing but padding.
INSTANTIATE_TEST_SUITE_P(Ranks, MicroRanksTest, ::testing::Values(2, 3, 4, 5, 8),
                         [](const auto& ranks) { return std::to_string(ranks.param); });

// The variance of one row is 0: each normalization would make its padding rows 1 / sqrt(epsilon)
// times as large, and 0 * inf in the gradient of a weight is NaN.
TEST(PaddingUnderBatchNormTest, OneRowInFloat16HasTheGradientsOfABatchOfOne) {
  std::vector<nlohmann::json> layers = {LayerJson("Flatten")};
  for (int i = 0; i < 8; ++i) {
    layers.push_back(LayerJson("Dense", {{"units", 64}}));
    layers.push_back(LayerJson("BatchNormalization", {{"epsilon", 1e-5}}));
    layers.push_back(LayerJson("ReLU"));
  }
  layers.push_back(LayerJson("Dense", {{"units", 3}}));
  const Batch full = FullBatch();
  for (const std::string& name : kBackendsUnderTest) {
    const auto gradients = [&](std::int64_t size) {
      TestedModel tested(
          layers,
          {.batch = size, .input = kImage, .classes = kLabels, .seed = 5, .type = DType::kFloat16},
          name);
      tested.Step(Slice(full, 0, 1, size), {.valid = 1}, 1.0f);
      return tested.Gradients();
    };
    const std::vector<float> padded = gradients(8), alone = gradients(1);
    ASSERT_EQ(padded.size(), alone.size());
    EXPECT_NE(std::ranges::count(alone, 0.0f), std::ssize(alone)) << name;
    for (std::size_t i = 0; i < alone.size(); ++i) {
      ASSERT_NEAR(padded[i], alone[i], 1e-3) << name << " " << i;
    }
  }
}

}  // namespace
}  // namespace lockstep::train
