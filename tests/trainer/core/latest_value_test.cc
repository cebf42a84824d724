#include "trainer/core/latest_value.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace lockstep::train {
namespace {

TEST(LatestValueTest, TheReaderSeesTheLastOfSeveral) {
  LatestValue<int> value(1);
  EXPECT_EQ(value.Get(), 1);
  value.Set(2);
  value.Set(3);
  EXPECT_EQ(value.Get(), 3);
  EXPECT_EQ(value.Get(), 3);
  value.Set(4);
  EXPECT_EQ(value.Get(), 4);
}

TEST(LatestValueTest, EachValueIsWholeAndNoneIsOlderThanTheOneBefore) {
  constexpr int kLast = 200000;
  LatestValue<std::array<int, 64>> value({});
  std::thread writer([&] {
    std::array<int, 64> numbers{};
    for (int i = 1; i <= kLast; ++i) {
      numbers.fill(i);
      value.Set(numbers);
    }
  });
  for (int seen = 0; seen < kLast;) {
    const std::array<int, 64>& numbers = value.Get();
    ASSERT_GE(numbers.front(), seen);
    seen = numbers.front();
    for (const int number : numbers) ASSERT_EQ(number, seen);
  }
  writer.join();
}

}  // namespace
}  // namespace lockstep::train
