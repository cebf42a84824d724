#include "trainer/nn/initial_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::train {
namespace {

const ParameterDesc kWeight{.name = "weight",
                            .desc = {.shape = {100, 50}},
                            .init = Init::kGlorotUniform,
                            .fan_in = 50,
                            .fan_out = 100};

TEST(InitialValuesTest, GlorotUniformFillsItsInterval) {
  const std::vector<float> values = InitialValues(kWeight, 1, 0);
  const double limit = std::sqrt(6.0 / 150);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -limit);
  EXPECT_LE(*high, limit);
  EXPECT_LT(*low, -0.99 * limit);
  EXPECT_GT(*high, 0.99 * limit);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / 5000;
  EXPECT_NEAR(mean, 0, 4 * limit / std::sqrt(3 * 5000.0)) << "four standard errors";
}

TEST(InitialValuesTest, ValuesDependOnSeedAndPlace) {
  EXPECT_EQ(InitialValues(kWeight, 1, 0), InitialValues(kWeight, 1, 0));
  EXPECT_NE(InitialValues(kWeight, 1, 0), InitialValues(kWeight, 2, 0));
  EXPECT_NE(InitialValues(kWeight, 1, 0), InitialValues(kWeight, 1, 2));
}

TEST(InitialValuesTest, ZerosAndOnes) {
  EXPECT_EQ(InitialValues({.name = "bias", .desc = {.shape = {3}}}, 1, 0),
            std::vector<float>(3, 0.0f));
  EXPECT_EQ(InitialValues({.name = "gamma", .desc = {.shape = {3}}, .init = Init::kOnes}, 1, 0),
            std::vector<float>(3, 1.0f));
}

}  // namespace
}  // namespace lockstep::train
