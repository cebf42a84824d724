// Winograd's kernels of every instruction set against plain sums. (winograd_test compares whole
// passes with `reference`, on the instruction set that the process is held to.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <limits>
#include <string>
#include <vector>

#include "tests/trainer/backend/cpu/each_isa.h"
#include "tests/trainer/backend/expect_close.h"
#include "trainer/check/run_op.h"

namespace lockstep::train::cpu {
namespace {

constexpr std::int64_t kArea = kWinogradSide * kWinogradSide, kImages = 2;

std::size_t Count(std::int64_t floats) {
  return static_cast<std::size_t>(floats);
}

std::int64_t Floats(const WinogradImage& image) {
  return kImages * image.channels * image.height * image.width;
}

// Where pixel h,w of channel c of image n lies.
std::size_t At(const WinogradImage& image, std::int64_t n, std::int64_t c, std::int64_t h,
               std::int64_t w) {
  const std::int64_t area = image.height * image.width;
  return Count(n * image.channels * area + c / image.inner * area * image.inner +
               (h * image.width + w) * image.inner + c % image.inner);
}

// Convolutions of two images with tiles that stick out, and with channels that fill two registers
// of x and three of y: a pair and a single one.
class WinogradKernelsTest : public EachIsa {
 protected:
  std::int64_t lanes() const { return tested().lanes; }

  WinogradShape Shape(std::int64_t taps, bool channels_last) const {
    const auto image = [&](std::int64_t channels, std::int64_t height, std::int64_t width) {
      return WinogradImage{channels, height, width, channels_last ? channels : lanes()};
    };
    return {.x = image(2 * lanes(), 9, 7),
            .y = image(3 * lanes(), 9 + 2 - taps + 1, 7 + 4 - taps + 1),
            .taps = taps,
            .pad_h = 1,
            .pad_w = 2,
            .rows = kWinogradRows,
            .bias = nullptr,
            .relu = false};
  }

  static std::int64_t TilesOf(const WinogradShape& s) {
    const std::int64_t side = kWinogradSide + 1 - s.taps;
    return kImages * ((s.y.height + side - 1) / side) * ((s.y.width + side - 1) / side);
  }

  // The weight's floats are out x in x taps x taps.
  static WinogradWeight WeightOf(const WinogradShape& s, bool flipped) {
    return {.in_channels = s.x.channels,
            .taps = s.taps,
            .out_stride = s.x.channels * s.taps * s.taps,
            .in_stride = s.taps * s.taps,
            .flipped = flipped};
  }

  // Calls body(at of x, at of y, at of the weight) for every product of the convolution.
  template <typename Body>
  static void ForProducts(const WinogradShape& s, bool flipped, Body body) {
    const std::int64_t field = s.taps * s.taps;
    for (std::int64_t n = 0; n < kImages; ++n) {
      for (std::int64_t tap = 0; tap < field; ++tap) {
        const std::int64_t r = tap / s.taps - s.pad_h, t = tap % s.taps - s.pad_w;
        for (std::int64_t p = std::max<std::int64_t>(0, -r);
             p < std::min(s.y.height, s.x.height - r); ++p) {
          for (std::int64_t q = std::max<std::int64_t>(0, -t);
               q < std::min(s.y.width, s.x.width - t); ++q) {
            for (std::int64_t k = 0; k < s.y.channels; ++k) {
              for (std::int64_t c = 0; c < s.x.channels; ++c) {
                body(At(s.x, n, c, p + r, q + t), At(s.y, n, k, p, q),
                     Count((k * s.x.channels + c) * field + (flipped ? field - 1 - tap : tap)));
              }
            }
          }
        }
      }
    }
  }

  std::vector<float> Scratch(const WinogradShape& s) const {
    return std::vector<float>(Count(kArea * (s.rows * (s.x.channels + 2 * lanes()) + kWinogradGap)),
                              std::numeric_limits<float>::signaling_NaN());
  }

  // y in blocks of so many registers of channels.
  std::vector<float> Convolve(const WinogradShape& s, const WinogradWeight& shape,
                              const std::vector<float>& x, const std::vector<float>& weight,
                              std::int64_t block_vectors) const {
    std::vector<float> y(Count(Floats(s.y)), std::numeric_limits<float>::quiet_NaN());
    std::vector<float> transformed(Count(kArea * s.x.channels * block_vectors * lanes()));
    for (std::int64_t first = 0; first < s.y.channels / lanes(); first += block_vectors) {
      const std::int64_t last = std::min(first + block_vectors, s.y.channels / lanes());
      tested().winograd_weight(shape, first, last, weight.data(), transformed.data());
      const WinogradBlock block{transformed.data(), first, last};
      const std::int64_t tiles = TilesOf(s), half = tiles / 2;
      std::vector<float> scratch = Scratch(s);
      tested().winograd(s, {0, half}, x.data(), block, y.data(), scratch.data());
      tested().winograd(s, {half, tiles}, x.data(), block, y.data(), scratch.data());
    }
    return y;
  }
};

TEST_P(WinogradKernelsTest, AConvolutionIsItsSum) {
  for (const std::int64_t taps : {3, 5}) {
    for (const bool channels_last : {false, true}) {
      for (const bool flipped : {false, true}) {
        SCOPED_TRACE(::testing::Message() << taps << (channels_last ? " channels last" : " blocked")
                                          << (flipped ? " flipped" : ""));
        WinogradShape s = Shape(taps, channels_last);
        const std::vector<float> x = RandomValues(Floats(s.x), 1),
                                 bias = RandomValues(s.y.channels, 2);
        const std::vector<float> weight =
            RandomValues(s.x.channels * s.y.channels * taps * taps, 3);
        s.bias = bias.data();
        s.relu = !flipped;
        std::vector<double> sums(Count(Floats(s.y)));
        ForProducts(s, flipped, [&](std::size_t from, std::size_t to, std::size_t at) {
          sums[to] += static_cast<double>(x[from]) * static_cast<double>(weight[at]);
        });
        std::vector<float> expected(sums.size());
        for (std::int64_t n = 0; n < kImages; ++n) {
          for (std::int64_t k = 0; k < s.y.channels; ++k) {
            for (std::int64_t pixel = 0; pixel < s.y.height * s.y.width; ++pixel) {
              const std::size_t at = At(s.y, n, k, 0, pixel);
              const auto sum = static_cast<float>(sums[at] + static_cast<double>(bias[Count(k)]));
              expected[at] = s.relu ? std::max(sum, 0.0f) : sum;
            }
          }
        }
        const std::vector<float> whole = Convolve(s, WeightOf(s, flipped), x, weight, 4);
        ExpectClose(whole, expected, "y");
        EXPECT_EQ(Convolve(s, WeightOf(s, flipped), x, weight, 2), whole) << "in two blocks";
      }
    }
  }
}

TEST_P(WinogradKernelsTest, AGradientIsItsSum) {
  for (const std::int64_t taps : {3, 5}) {
    for (const bool channels_last : {false, true}) {
      SCOPED_TRACE(::testing::Message() << taps << (channels_last ? " channels last" : " blocked"));
      const WinogradShape s = Shape(taps, channels_last);
      const std::vector<float> x = RandomValues(Floats(s.x), 1), dy = RandomValues(Floats(s.y), 2);
      const std::int64_t weights = s.x.channels * s.y.channels * taps * taps;
      std::vector<double> sums(Count(weights)), bias(Count(s.y.channels));
      ForProducts(s, false, [&](std::size_t from, std::size_t to, std::size_t at) {
        sums[at] += static_cast<double>(x[from]) * static_cast<double>(dy[to]);
      });
      for (std::int64_t n = 0; n < kImages; ++n) {
        for (std::int64_t k = 0; k < s.y.channels; ++k) {
          for (std::int64_t pixel = 0; pixel < s.y.height * s.y.width; ++pixel) {
            bias[Count(k)] += static_cast<double>(dy[At(s.y, n, k, 0, pixel)]);
          }
        }
      }
      // Two threads' sums.
      const std::int64_t products = kArea * s.x.channels * s.y.channels;
      const std::int64_t stride = products + s.y.channels, tiles = TilesOf(s), half = tiles / 3;
      std::vector<float> parts(Count(2 * stride));
      std::vector<float> scratch(Count(
          kArea * (s.rows * (s.x.channels + s.y.channels) + 2 * kWinogradGap) + s.y.channels));
      tested().winograd_gradient(s, {0, half}, x.data(), dy.data(), parts.data(), scratch.data());
      tested().winograd_gradient(s, {half, tiles}, x.data(), dy.data(), parts.data() + stride,
                                 scratch.data());
      std::vector<float> found(Count(weights), std::numeric_limits<float>::quiet_NaN());
      tested().winograd_gradient_weight(s, {parts.data(), 2, stride}, 0, s.x.channels,
                                        found.data());
      ExpectClose(found, {sums.begin(), sums.end()}, "weight");
      std::vector<float> found_bias(bias.size());
      for (std::size_t k = 0; k < bias.size(); ++k) {
        const std::size_t at = Count(products) + k;
        found_bias[k] = parts[at] + parts[Count(stride) + at];
      }
      ExpectClose(found_bias, {bias.begin(), bias.end()}, "bias");
    }
  }
}

// Registers hold more tiles than the last batch has. What another op left in the rows of the others
// must not be computed with: denormal numbers there are slow.
TEST_P(WinogradKernelsTest, RowsWithoutATileAreNotReadBeforeTheyAreWritten) {
  const WinogradShape s = Shape(3, true);
  const std::vector<float> x = RandomValues(Floats(s.x), 1),
                           weight = RandomValues(s.x.channels * s.y.channels * 9, 3);
  std::vector<float> transformed(Count(kArea * s.x.channels * s.y.channels)), y(Count(Floats(s.y))),
      scratch = Scratch(s);
  tested().winograd_weight(WeightOf(s, false), 0, 3, weight.data(), transformed.data());
  const WinogradBlock block{transformed.data(), 0, 3};
  std::feclearexcept(FE_ALL_EXCEPT);
  tested().winograd(s, {0, 1}, x.data(), block, y.data(), scratch.data());
  EXPECT_EQ(std::fetestexcept(FE_INVALID), 0) << "a signalling NaN was multiplied";
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, WinogradKernelsTest, AllIsas(), NameOfIsa);

}  // namespace
}  // namespace lockstep::train::cpu
