#include "operator/kube/token_bucket.h"

#include <gtest/gtest.h>

#include <chrono>

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

}  // namespace
}  // namespace lockstep::kube
