#include "trainer/core/rng.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

// Known answers published with the algorithm (Random123, kat_vectors, philox4x32 10).
TEST(PhiloxTest, GivesThePublishedNumbers) {
  EXPECT_EQ(Philox(0, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~0ull, ~0ull, ~0ull),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformFloatsAreInTheUnitInterval) {
  EXPECT_EQ(UniformFloat(0), 0.0f);
  EXPECT_LT(UniformFloat(0xffffffff), 1.0f);
}

TEST(DeriveKeyTest, StreamsAndSeedsDiffer) {
  EXPECT_NE(DeriveKey(1, 0), DeriveKey(1, 1));
  EXPECT_NE(DeriveKey(1, 0), DeriveKey(2, 0));
}

}  // namespace
}  // namespace lockstep::train
