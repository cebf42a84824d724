// The moments of many numbers that lie far from zero, measured piece by piece.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/trainer/backend/cpu/each_isa.h"
#include "trainer/check/run_op.h"

namespace lockstep::train::cpu {
namespace {

class BatchNormKernelsTest : public EachIsa {};

TEST_P(BatchNormKernelsTest, MomentsAreExactFarFromZero) {
  constexpr std::int64_t kPixels = 1003;
  for (const std::int64_t channels : {1, 3, 4, 8, 16}) {
    for (const std::int64_t step : {channels, channels + 5}) {
      SCOPED_TRACE(std::to_string(channels) + " of " + std::to_string(step));
      std::vector<float> x = RandomValues(2 * kPixels * step, 1);
      for (float& value : x) value += 1000;
      BatchNormMoments moments{};
      const BatchNormRun run{.pixels = kPixels, .step = step, .channels = channels, .relu = false};
      tested().batch_norm_measure(run, x.data(), moments);
      tested().batch_norm_measure(run, x.data() + kPixels * step, moments);

      ASSERT_EQ(moments.count, 2 * kPixels);
      for (std::int64_t c = 0; c < channels; ++c) {
        double mean = 0, squares = 0;
        for (std::int64_t p = 0; p < 2 * kPixels; ++p) {
          mean += x[static_cast<std::size_t>(p * step + c)] / moments.count;
        }
        for (std::int64_t p = 0; p < 2 * kPixels; ++p) {
          squares += std::pow(x[static_cast<std::size_t>(p * step + c)] - mean, 2);
        }
        EXPECT_NEAR(moments.mean[c], mean, 1e-6) << c;
        EXPECT_NEAR(moments.squares[c], squares, 1e-5 * squares) << c;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BatchNormKernelsTest, AllIsas(), NameOfIsa);

}  // namespace
}  // namespace lockstep::train::cpu
