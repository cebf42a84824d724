#include "trainer/nn/memory_plan.h"

#include <gtest/gtest.h>

#include "trainer/core/arena.h"
#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

void ExpectApart(const std::vector<Lifetime>& buffers, const MemoryPlan& plan) {
  for (std::size_t a = 0; a < buffers.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % kArenaAlignment, 0u);
    EXPECT_LE(plan.offsets[a] + buffers[a].bytes, plan.bytes);
    for (std::size_t b = a + 1; b < buffers.size(); ++b) {
      const bool together =
          buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
      const bool overlap = plan.offsets[a] < plan.offsets[b] + buffers[b].bytes &&
                           plan.offsets[b] < plan.offsets[a] + buffers[a].bytes;
      EXPECT_FALSE(together && overlap) << a << " and " << b;
    }
  }
}

TEST(MemoryPlanTest, BuffersThatLiveTogetherNeverOverlap) {
  for (std::uint64_t trial = 0; trial < 50; ++trial) {
    std::vector<Lifetime> buffers;
    for (std::uint64_t i = 0; i < 30; ++i) {
      const PhiloxBlock random = Philox(trial, i, 0);
      const int first = static_cast<int>(random[0] % 40);
      buffers.push_back({random[1] % 5000, first, first + static_cast<int>(random[2] % 10)});
    }
    ExpectApart(buffers, PlanMemory(buffers));
  }
}

TEST(MemoryPlanTest, BuffersThatLiveApartShareMemory) {
  const std::vector<Lifetime> buffers = {{1024, 0, 1}, {1024, 2, 3}, {512, 4, 5}, {512, 4, 5}};
  EXPECT_EQ(PlanMemory(buffers).bytes, 1024u);
}

TEST(MemoryPlanTest, LastUseAndFirstUseAtTheSameMomentDoNotShare) {
  const std::vector<Lifetime> buffers = {{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(PlanMemory(buffers).bytes, 128u);
}

TEST(MemoryPlanTest, NothingNeedsNothing) {
  EXPECT_EQ(PlanMemory({}).bytes, 0u);
}

}  // namespace
}  // namespace lockstep::train
