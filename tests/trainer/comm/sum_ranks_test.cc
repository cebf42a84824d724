#include "trainer/comm/sum_ranks.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::train {
namespace {

TEST(SumRanksTest, AddsInRankOrderWithinItsRangeOnly) {
  for (const std::size_t size : {1u, 2u, 3u, 7u}) {
    // Neither whole vectors nor whole tiles.
    constexpr std::size_t kCount = 2203, kBegin = 5, kEnd = 2199;
    std::vector<std::vector<float>> values(size, std::vector<float>(kCount));
    for (std::size_t r = 0; r < size; ++r)
      for (std::size_t i = 0; i < kCount; ++i)
        values[r][i] = 1.0f / static_cast<float>(1 + r * 31 + i);
    const auto before = values;
    std::vector<float*> ranks;
    for (auto& value : values) ranks.push_back(value.data());
    SumRanks(ranks, kBegin, kEnd);
    for (std::size_t i = 0; i < kCount; ++i) {
      float sum = before[0][i];
      for (std::size_t r = 1; r < size; ++r) sum += before[r][i];
      for (std::size_t r = 0; r < size; ++r)
        ASSERT_EQ(values[r][i], i < kBegin || i >= kEnd ? before[r][i] : sum)
            << "rank " << r << " of " << size << " at " << i;
    }
  }
}

TEST(ShareOfTest, SharesFollowEachOtherAndCoverAll) {
  for (const int size : {1, 2, 3, 5, 64}) {
    for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 1000u, 3'274'634u}) {
      std::size_t end = 0;
      for (int rank = 0; rank < size; ++rank) {
        const auto share = ShareOf(rank, size, count);
        EXPECT_EQ(share.first, end);
        EXPECT_GE(share.second, share.first);
        end = share.second;
        EXPECT_TRUE(end == count || end % 16 == 0) << "a cache line belongs to one rank";
      }
      EXPECT_EQ(end, count);
    }
  }
}

}  // namespace
}  // namespace lockstep::train
