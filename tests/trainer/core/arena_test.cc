#include "trainer/core/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/check.h"

namespace lockstep::train {
namespace {

TEST(ArenaTest, PiecesAreAlignedZeroedAndApart) {
  Arena arena;
  const std::size_t a = arena.Reserve(3);
  const std::size_t b = arena.Reserve(100);
  arena.Allocate();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.At(a)) % kArenaAlignment, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.At(b)) % kArenaAlignment, 0u);
  EXPECT_GE(b - a, 3u);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(arena.At<unsigned char>(b)[i], 0);
}

TEST(ArenaTest, ReservingAfterAllocationIsABrokenInvariant) {
  Arena arena;
  arena.Allocate();
  EXPECT_THROW(arena.Reserve(1), CheckFailure);
}

}  // namespace
}  // namespace lockstep::train
