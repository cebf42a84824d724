#include "trainer/core/squared_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::train {
namespace {

TEST(SquaredNormTest, ThePartsAreAllOfIt) {
  for (const std::size_t size : {0, 1, 15, 4096, 4097, 64 * 4096, 64 * 4096 + 1, 1'000'003}) {
    const std::vector<float> values(size, 2.0f);
    EXPECT_EQ(SquaredNorm(values), 4.0 * static_cast<double>(size)) << size;
  }
}

TEST(SquaredNormTest, ItIsFiniteExactlyIfAllValuesAre) {
  std::vector<float> values(10'000, 1e-3f);
  EXPECT_NEAR(SquaredNorm(values), 1e-2, 1e-7);
  values[4097] = 3e38f;  // its square is too large for a float
  EXPECT_NEAR(SquaredNorm(values) / 9e76, 1, 1e-3);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{5000}, values.size() - 1}) {
      std::vector<float> broken = values;
      broken[at] = bad;
      EXPECT_FALSE(std::isfinite(SquaredNorm(broken)));
    }
  }
}

}  // namespace
}  // namespace lockstep::train
