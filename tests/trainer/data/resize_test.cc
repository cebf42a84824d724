#include "trainer/data/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

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

// The plain formula: rows first, then columns, all in float, rounded to the nearest byte.
std::vector<std::uint8_t> ResizeByTheFormula(const Pixels& image, std::size_t height,
                                             std::size_t width, Interpolation interpolation) {
  const AxisTaps down = MakeTaps(image.height, height, interpolation);
  const AxisTaps across = MakeTaps(image.width, width, interpolation);
  std::vector<std::uint8_t> planes;
  for (std::size_t channel = 0; channel < image.channels; ++channel) {
    for (std::size_t i = 0; i < height * width; ++i) {
      const std::size_t y = i / width, x = i % width;
      float value = 0;
      for (std::size_t column = 0; column < across.taps; ++column) {
        float mixed = 0;
        for (std::size_t row = 0; row < down.taps; ++row) {
          const std::size_t pixel = (down.first[y] + row) * image.width + across.first[x] + column;
          mixed += down.weights[y * down.taps + row] *
                   static_cast<float>(image.bytes[pixel * image.channels + channel]);
        }
        value += across.weights[x * across.taps + column] * mixed;
      }
      planes.push_back(static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f)));
    }
  }
  return planes;
}

// Checkpoints keep a digest of the samples, so that not one bit may differ.
TEST(ResizeTest, EveryNumberOfChannelsHasTheBitsOfTheFormula) {
  std::uint32_t random = 1;
  for (std::size_t channels = 1; channels <= 4; ++channels) {
    for (const auto& [height, width] : {std::pair{7u, 11u}, {1u, 1u}, {5u, 3u}, {31u, 40u}}) {
      Pixels image{.height = height, .width = width, .channels = channels, .bytes = {}};
      for (std::size_t i = 0; i < height * width * channels; ++i) {
        random = random * 1664525 + 1013904223;
        image.bytes.push_back(static_cast<std::uint8_t>(random >> 24));
      }
      for (const auto interpolation :
           {Interpolation::kBilinear, Interpolation::kNearest, Interpolation::kArea}) {
        std::vector<std::uint8_t> planes(channels * 13 * 6);
        ResizeToPlanes(image, 13, 6, interpolation, planes);
        EXPECT_EQ(planes, ResizeByTheFormula(image, 13, 6, interpolation))
            << channels << " channels of " << height << "x" << width;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::train
