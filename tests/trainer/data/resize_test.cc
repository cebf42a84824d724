#include "trainer/data/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace lockstep::train {
namespace {

using api::Interpolation;
using ::testing::ElementsAre;
using ::testing::FloatNear;

std::vector<std::uint8_t> Resize(std::vector<std::uint8_t> row, std::size_t width,
                                 Interpolation interpolation) {
  const Pixels image{.height = 1, .width = row.size(), .channels = 1, .bytes = std::move(row)};
  std::vector<std::uint8_t> planes(width);
  ResizeToPlanes(image, 1, width, interpolation, planes);
  return planes;
}

// By hand, from the formula that tf.image.resize documents (half-pixel centers), rounded.
TEST(ResizeTest, RowHasTheValuesOfTheFormula) {
  EXPECT_THAT(Resize({0, 100, 200, 50}, 2, Interpolation::kBilinear), ElementsAre(50, 125));
  EXPECT_THAT(Resize({0, 100, 200, 50}, 2, Interpolation::kNearest), ElementsAre(100, 50));
  EXPECT_THAT(Resize({0, 100, 200, 50}, 2, Interpolation::kArea), ElementsAre(50, 125));
  EXPECT_THAT(Resize({0, 100}, 4, Interpolation::kBilinear), ElementsAre(0, 25, 75, 100));
  EXPECT_THAT(Resize({0, 100}, 4, Interpolation::kNearest), ElementsAre(0, 0, 100, 100));
  EXPECT_THAT(Resize({0, 90, 180}, 2, Interpolation::kBilinear), ElementsAre(23, 158));
  EXPECT_THAT(Resize({0, 90, 180}, 2, Interpolation::kArea), ElementsAre(30, 150));
  EXPECT_THAT(Resize({7}, 3, Interpolation::kBilinear), ElementsAre(7, 7, 7));
}

TEST(ResizeTest, EqualSizesAreACopyOfEachPlane) {
  const Pixels image{.height = 1, .width = 2, .channels = 3, .bytes = {1, 2, 3, 4, 5, 6}};
  for (const auto interpolation :
       {Interpolation::kBilinear, Interpolation::kNearest, Interpolation::kArea}) {
    std::vector<std::uint8_t> planes(6);
    ResizeToPlanes(image, 1, 2, interpolation, planes);
    EXPECT_THAT(planes, ElementsAre(1, 4, 2, 5, 3, 6));
  }
}

TEST(ResizeTest, BothAxesAndAllChannelsAreResized) {
  const Pixels image{
      .height = 2, .width = 2, .channels = 2, .bytes = {0, 100, 10, 110, 20, 120, 30, 130}};
  std::vector<std::uint8_t> planes(2);
  ResizeToPlanes(image, 1, 1, Interpolation::kBilinear, planes);
  EXPECT_THAT(planes, ElementsAre(15, 115));
}

TEST(ResizeTest, TapsAreInsideAndSumToOne) {
  for (const auto interpolation :
       {Interpolation::kBilinear, Interpolation::kNearest, Interpolation::kArea}) {
    for (std::size_t in = 1; in <= 40; ++in) {
      for (std::size_t out = 1; out <= 40; ++out) {
        const AxisTaps axis = MakeTaps(in, out, interpolation);
        ASSERT_EQ(axis.first.size(), out);
        ASSERT_EQ(axis.weights.size(), out * axis.taps);
        for (std::size_t i = 0; i < out; ++i) {
          ASSERT_LE(axis.first[i] + axis.taps, in) << in << " to " << out;
          const float* weights = axis.weights.data() + i * axis.taps;
          ASSERT_THAT(std::accumulate(weights, weights + axis.taps, 0.0f), FloatNear(1, 1e-5f));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::train
