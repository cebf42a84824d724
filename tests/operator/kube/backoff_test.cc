#include "operator/kube/backoff.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;

constexpr BackoffPolicy kPolicy{
    .initial = milliseconds(10), .limit = milliseconds(100), .factor = 2.0, .jitter = 0.5};

TEST(BackoffTest, DoublesUntilTheLimit) {
  const int expected[] = {10, 20, 40, 80, 100, 100};
  for (int failures = 1; failures <= 6; ++failures) {
    EXPECT_EQ(BackoffDelay(kPolicy, failures, 0.0), milliseconds(expected[failures - 1]));
  }
}

TEST(BackoffTest, JitterOnlyMakesItLonger) {
  EXPECT_EQ(BackoffDelay(kPolicy, 1, 0.5), std::chrono::microseconds(12500));
  EXPECT_LT(BackoffDelay(kPolicy, 9, 0.999), milliseconds(150));
}

TEST(BackoffTest, ManyFailuresDoNotOverflow) {
  EXPECT_EQ(BackoffDelay(kPolicy, 1'000'000, 0.0), milliseconds(100));
  EXPECT_EQ(BackoffDelay(kPolicy, 0, 0.0), milliseconds(10));
}

}  // namespace
}  // namespace lockstep::kube
