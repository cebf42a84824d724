#include "trainer/core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep::train {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(HalfTest, EveryValueSurvivesBothConversions) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float narrow = FromFloat16(half), wide = FromBFloat16(half);
    if (std::isnan(narrow)) {
      ASSERT_TRUE(std::isnan(FromFloat16(ToFloat16(narrow)))) << bits;
    } else {
      ASSERT_EQ(ToFloat16(narrow), half);
    }
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(FromBFloat16(ToBFloat16(wide)))) << bits;
    } else {
      ASSERT_EQ(ToBFloat16(wide), half);
    }
  }
}

TEST(HalfTest, Float16IsBinary16) {
  EXPECT_EQ(FromFloat16(0x3c00), 1.0f);
  EXPECT_EQ(FromFloat16(0xc000), -2.0f);
  EXPECT_EQ(FromFloat16(0x7bff), 65504.0f);
  EXPECT_EQ(FromFloat16(0x0400), 0x1p-14f);
  EXPECT_EQ(FromFloat16(0x0001), 0x1p-24f);
  EXPECT_EQ(FromFloat16(0x7c00), kInfinity);
  EXPECT_EQ(FromFloat16(0xfc00), -kInfinity);
}

TEST(HalfTest, RoundsToNearestTiesToEven) {
  EXPECT_EQ(ToFloat16(1 + 0x1p-11f), 0x3c00);             // a tie, down to even
  EXPECT_EQ(ToFloat16(1 + 0x1p-11f + 0x1p-20f), 0x3c01);  // above it
  EXPECT_EQ(ToFloat16(1 + 0x3p-11f), 0x3c02);             // a tie, up to even
  EXPECT_EQ(ToFloat16(0x1p-25f), 0);                      // likewise among subnormals
  EXPECT_EQ(ToFloat16(0x3p-25f), 2);
  EXPECT_EQ(ToFloat16(65519.0f), 0x7bff);
  EXPECT_EQ(ToFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(ToFloat16(-1e30f), 0xfc00);
  EXPECT_EQ(ToBFloat16(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(ToBFloat16(1 + 0x3p-8f), 0x3f82);
  EXPECT_EQ(ToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(HalfTest, NaNStaysNaN) {
  const float loud = FloatOf(0x7f800001);  // the upper half alone is infinity
  EXPECT_TRUE(std::isnan(FromBFloat16(ToBFloat16(loud))));
  EXPECT_TRUE(std::isnan(FromFloat16(ToFloat16(loud))));
}

}  // namespace
}  // namespace lockstep::train
