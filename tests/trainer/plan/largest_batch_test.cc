#include "trainer/plan/largest_batch.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::train {
namespace {

using Need = std::vector<int>;  // by rows, from 1 on

std::int64_t Largest(const Need& need, const std::vector<std::int64_t>& falls, int available) {
  const auto fits = [&](std::int64_t rows) -> absl::StatusOr<bool> {
    return need.at(static_cast<std::size_t>(rows - 1)) <= available;
  };
  return *LargestThatFits(std::ssize(need), falls, fits);
}

std::int64_t LargestOfAll(const Need& need, int available) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < need.size(); ++i) {
    if (need[i] <= available) largest = static_cast<std::int64_t>(i) + 1;
  }
  return largest;
}

TEST(LargestBatchTest, IsTheLargestWhateverIsAvailable) {
  const Need grows = {3, 4, 5, 6, 7, 8, 9}, falls = {13, 14, 15, 6, 7, 8, 9},
             falls_twice = {23, 24, 15, 16, 7, 8, 9};
  for (int available = 0; available < 30; ++available) {
    SCOPED_TRACE(available);
    EXPECT_EQ(Largest(grows, {}, available), LargestOfAll(grows, available));
    EXPECT_EQ(Largest(falls, {4}, available), LargestOfAll(falls, available));
    EXPECT_EQ(Largest(falls_twice, {5, 3}, available), LargestOfAll(falls_twice, available));
  }
}

TEST(LargestBatchTest, FallsBeyondTheEndChangeNothing) {
  EXPECT_EQ(Largest({3, 4, 5}, {4, 100}, 4), 2);
  EXPECT_EQ(Largest({}, {1}, 4), 0);
}

TEST(LargestBatchTest, AnErrorEndsTheSearch) {
  const auto fails = [](std::int64_t) -> absl::StatusOr<bool> {
    return absl::InternalError("found no memory");
  };
  EXPECT_TRUE(absl::IsInternal(LargestThatFits(3, {}, fails).status()));
}

TEST(LargestBatchTest, FindsTheFirst) {
  for (std::int64_t first = 2; first <= 9; ++first) {
    EXPECT_EQ(FirstOf(2, 9, [&](std::int64_t n) { return n >= first; }), first);
  }
}

}  // namespace
}  // namespace lockstep::train
