#include "trainer/core/duration_histogram.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(DurationHistogramTest, ABoundBelongsToTheRangeBelowIt) {
  DurationHistogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  histogram.Observe(0.001);
  histogram.Observe(0.0011);
  histogram.Observe(1000);
  EXPECT_EQ(histogram.counts[0], 1);
  EXPECT_EQ(histogram.counts[1], 1);
  EXPECT_EQ(histogram.counts.back(), 1);
  EXPECT_EQ(histogram.count(), 3);
  EXPECT_NEAR(histogram.sum, 1000.0021, 1e-9);
}

}  // namespace
}  // namespace lockstep::train
