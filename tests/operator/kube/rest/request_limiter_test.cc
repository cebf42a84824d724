#include "operator/kube/rest/request_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const SteadyTime kStart = SteadyTime(std::chrono::hours(1));

TEST(TokenBucketTest, ABurstIsAtOnceAndTheRestAtTheRate) {
  TokenBucket bucket(10, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bucket.Take(kStart), kStart);
  EXPECT_EQ(bucket.Take(kStart), kStart + milliseconds(100));
  EXPECT_EQ(bucket.Take(kStart), kStart + milliseconds(200));
}

TEST(TokenBucketTest, ARestSavesUpNoMoreThanTheBurst) {
  TokenBucket bucket(10, 2);
  for (int i = 0; i < 5; ++i) (void)bucket.Take(kStart);
  const SteadyTime later = kStart + seconds(60);
  EXPECT_EQ(bucket.Take(later), later);
  EXPECT_EQ(bucket.Take(later), later);
  EXPECT_EQ(bucket.Take(later), later + milliseconds(100));
}

TEST(TokenBucketTest, WhoTakesATurnMayKeepTheNextOneAway) {
  TokenBucket bucket(10, 1);
  EXPECT_EQ(bucket.Take(kStart, seconds(1)), kStart);
  EXPECT_EQ(bucket.Take(kStart, milliseconds(1)), kStart + seconds(1));
  EXPECT_EQ(bucket.Take(kStart), kStart + milliseconds(1100)) << "the rate stays";
}

TEST(TokenBucketTest, NoRateIsNoLimit) {
  TokenBucket bucket(0, 0);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(bucket.Take(kStart), kStart);
}

TEST(RequestLimiterTest, SoManyAtATimeAndNoMore) {
  RequestLimiter limiter(0, 0, 2);
  std::atomic<int> inside{0}, most{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) {
        const RequestLimiter::Slot slot(limiter);
        const int now = ++inside;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();
        --inside;
      }
    });
  }
  threads.clear();
  EXPECT_LE(most, 2);
  EXPECT_EQ(inside, 0);
}

TEST(ByteBudgetTest, NoMoreIsLentThanThereIs) {
  ByteBudget budget(10);
  std::atomic<int> lent{0}, most{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, size = 1 + i] {
      for (int n = 0; n < 200; ++n) {
        const ByteBudget::Share share(budget, static_cast<std::size_t>(size));
        const int now = lent += size;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();
        lent -= size;
      }
    });
  }
  threads.clear();
  EXPECT_LE(most, 10);
  EXPECT_EQ(lent, 0);
}

TEST(ByteBudgetTest, WhoAsksForMoreThanThereIsHoldsEverything) {
  ByteBudget budget(10);
  std::atomic<bool> has_more{false};
  std::jthread other;
  {
    const ByteBudget::Share all(budget, 11);
    other = std::jthread([&] {
      const ByteBudget::Share more(budget, 1);
      has_more = true;
    });
    EXPECT_FALSE(has_more);
  }
  other.join();
  EXPECT_TRUE(has_more);
}

}  // namespace
}  // namespace lockstep::kube
