#include "trainer/nn/memory_plan.h"

#include <gtest/gtest.h>

#include "trainer/core/arena.h"
#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

bool IsUsed(const Lifetime& buffer, int time) {
  const auto is_in = [time](const Period& period) {
    return period.first <= time && time <= period.last;
  };
  return is_in(buffer.used) || is_in(buffer.used_again);
}

bool LiveAtOnce(const Lifetime& a, const Lifetime& b) {
  for (int time = 0; time < 100; ++time) {
    if (IsUsed(a, time) && IsUsed(b, time)) return true;
  }
  return false;
}

void ExpectApart(const std::vector<Lifetime>& buffers, const MemoryPlan& plan) {
  for (std::size_t a = 0; a < buffers.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % kArenaAlignment, 0u);
    EXPECT_LE(plan.offsets[a] + buffers[a].bytes, plan.bytes);
    for (std::size_t b = a + 1; b < buffers.size(); ++b) {
      const bool together = LiveAtOnce(buffers[a], buffers[b]);
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
      const int last = first + static_cast<int>(random[2] % 10);
      buffers.push_back({.bytes = random[1] % 5000, .used = {first, last}});
      const int again = last + 1 + static_cast<int>(random[3] % 30);
      if (i % 3 == 0) buffers.back().used_again = {again, again + 5};
    }
    ExpectApart(buffers, PlanMemory(buffers));
  }
}

TEST(MemoryPlanTest, BuffersThatLiveApartShareMemory) {
  const std::vector<Lifetime> buffers = {
      {1024, {0, 1}}, {1024, {2, 3}}, {512, {4, 5}}, {512, {4, 5}}};
  EXPECT_EQ(PlanMemory(buffers).bytes, 1024u);
}

TEST(MemoryPlanTest, LastUseAndFirstUseAtTheSameMomentDoNotShare) {
  const std::vector<Lifetime> buffers = {{64, {0, 1}}, {64, {1, 2}}};
  EXPECT_EQ(PlanMemory(buffers).bytes, 128u);
}

TEST(MemoryPlanTest, ABufferSharesItsMemoryBetweenItsTwoPeriods) {
  const Lifetime restored = {.bytes = 1024, .used = {0, 1}, .used_again = {6, 7}};
  EXPECT_EQ(PlanMemory({{restored, {1024, {2, 5}}}}).bytes, 1024u);
  EXPECT_EQ(PlanMemory({{restored, {1024, {2, 6}}}}).bytes, 2048u);
}

TEST(MemoryPlanTest, NothingNeedsNothing) {
  EXPECT_EQ(PlanMemory({}).bytes, 0u);
}

}  // namespace
}  // namespace lockstep::train
