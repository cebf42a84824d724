#include "trainer/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "trainer/core/rng.h"
#include "trainer/data/sample_hash.h"

namespace lockstep::train {
namespace {

std::vector<std::int64_t> OrderOf(std::uint64_t seed, std::uint64_t epoch, std::int64_t n) {
  const Permutation permutation(seed, epoch, n);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) order[static_cast<std::size_t>(i)] = permutation(i);
  return order;
}

bool IsBijection(std::vector<std::int64_t> order) {
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

TEST(PermutationTest, IsABijectionForEverySmallSize) {
  for (std::int64_t n = 1; n <= 2000; ++n) {
    ASSERT_TRUE(IsBijection(OrderOf(7, static_cast<std::uint64_t>(n), n))) << n;
  }
}

TEST(PermutationTest, IsABijectionForLargeSizes) {
  for (const std::int64_t n : {60000, 65536, 65537, 1281167}) {
    EXPECT_TRUE(IsBijection(OrderOf(1, 0, n))) << n;
  }
}

TEST(PermutationTest, StaysInRangeForHugeSizes) {
  const std::int64_t n = (std::int64_t{1} << 60) - 3;
  const Permutation permutation(1, 0, n);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t index = permutation(n - 1 - i);
    ASSERT_GE(index, 0);
    ASSERT_LT(index, n);
    EXPECT_TRUE(seen.insert(index).second);
  }
}

TEST(PermutationTest, DependsOnSeedAndEpochAlone) {
  EXPECT_EQ(OrderOf(1, 2, 500), OrderOf(1, 2, 500));
  EXPECT_NE(OrderOf(1, 2, 500), OrderOf(1, 3, 500));
  EXPECT_NE(OrderOf(1, 2, 500), OrderOf(2, 2, 500));
}

TEST(PermutationTest, WithoutShuffleIsTheIdentity) {
  const Permutation identity(1, 0, 10, /*shuffle=*/false);
  for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(identity(i), i);
}

// In a random order of n, neighbours are n/3 apart on average, and no index keeps to one half.
TEST(PermutationTest, LooksRandom) {
  const std::int64_t n = 10000;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const auto order = OrderOf(3, epoch, n);
    double distance = 0;
    int from_first_half = 0;
    for (std::size_t i = 1; i < order.size(); ++i) {
      distance += std::abs(static_cast<double>(order[i] - order[i - 1]));
      if (i < order.size() / 2 && order[i] < n / 2) ++from_first_half;
    }
    EXPECT_NEAR(distance / static_cast<double>(n), static_cast<double>(n) / 3, n * 0.02);
    EXPECT_NEAR(from_first_half, n / 4, n * 0.02);
  }
}

TEST(StepPlanTest, LastStepOfAnEpochIsShort) {
  const StepPlan plan{.examples = 10, .global_batch = 4, .world = 2};
  EXPECT_EQ(plan.StepsPerEpoch(), 3);
  EXPECT_EQ(plan.LocalBatch(), 2);
  EXPECT_EQ(plan.Epoch(2), 0);
  EXPECT_EQ(plan.Epoch(3), 1);
  EXPECT_EQ(plan.StepInEpoch(5), 2);
  EXPECT_EQ(plan.GlobalExamples(1), 4);
  EXPECT_EQ(plan.GlobalExamples(2), 2);
}

TEST(StepPlanTest, BatchLargerThanTheDataSetIsOneStep) {
  const StepPlan plan{.examples = 3, .global_batch = 128, .world = 4};
  EXPECT_EQ(plan.StepsPerEpoch(), 1);
  EXPECT_EQ(plan.LocalBatch(), 32);
  EXPECT_EQ(plan.GlobalExamples(0), 3);
}

// The property that everything rests on: whatever the world, ranks' slices are disjoint, in order,
// no longer than a batch, and cover exactly the positions of the step.
TEST(RankSliceTest, SlicesOfAllRanksAreDisjointAndCoverTheStep) {
  for (std::uint64_t trial = 0; trial < 400; ++trial) {
    const PhiloxBlock random = Philox(11, trial, 0);
    StepPlan plan;
    plan.examples = 1 + random[0] % 500;
    plan.global_batch = 1 + random[1] % 64;
    plan.world = 1 + static_cast<int>(random[2] % 9);
    for (std::int64_t step = 0; step < 2 * plan.StepsPerEpoch(); ++step) {
      std::int64_t position = plan.StepInEpoch(step) * plan.global_batch;
      for (int rank = 0; rank < plan.world; ++rank) {
        const Slice slice = RankSlice(plan, step, rank);
        ASSERT_EQ(slice.begin, position);
        ASSERT_GE(slice.end, slice.begin);
        ASSERT_LE(slice.end - slice.begin, plan.LocalBatch());
        position = slice.end;
      }
      ASSERT_EQ(position,
                std::min(plan.examples, (plan.StepInEpoch(step) + 1) * plan.global_batch));
    }
  }
}

TEST(RankSliceTest, ShortStepIsSharedEvenly) {
  const StepPlan plan{.examples = 4, .global_batch = 128, .world = 4};
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(RankSlice(plan, 0, rank), (Slice{rank, rank + 1}));
}

TEST(RankSliceTest, EverySampleOfAnEpochIsUsedOnceWhateverTheWorld) {
  for (const int world : {1, 2, 3, 8}) {
    const StepPlan plan{.examples = 1000, .global_batch = 96, .world = world};
    const Permutation order(5, 1, plan.examples);
    std::uint64_t hash_sum = 0;
    for (std::int64_t step = 0; step < plan.StepsPerEpoch(); ++step) {
      for (int rank = 0; rank < world; ++rank) {
        const Slice slice = RankSlice(plan, plan.StepsPerEpoch() + step, rank);
        for (std::int64_t p = slice.begin; p < slice.end; ++p) hash_sum += SampleHash(order(p));
      }
    }
    EXPECT_EQ(hash_sum, ExpectedHashSum(plan.examples)) << world;
  }
}

TEST(SampleHashTest, ALostOrRepeatedSampleChangesTheSum) {
  const std::uint64_t expected = ExpectedHashSum(100);
  EXPECT_NE(expected - SampleHash(3), expected);
  EXPECT_NE(expected - SampleHash(3) + SampleHash(4), expected);
}

}  // namespace
}  // namespace lockstep::train
