#include "trainer/strategy/patience.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep::train {
namespace {

using std::chrono::milliseconds;

TEST(PatienceTest, SlowStepsAreAllowedTheirMultiple) {
  Patience patience(milliseconds(100));
  EXPECT_EQ(patience.timeout(), Duration(milliseconds(100)));
  patience.Begin(patience.timeout());
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_TRUE(patience.RecordEnd(absl::OkStatus()).ok());
  EXPECT_GE(patience.timeout(), Duration(kStepsPerTimeout * milliseconds(30)));
}

TEST(PatienceTest, AFailureThatNoTimeoutExplainsChangesNothing) {
  Patience patience(std::chrono::hours(1));
  patience.Begin(patience.timeout());
  EXPECT_TRUE(absl::IsUnavailable(patience.RecordEnd(absl::UnavailableError("lost"))));
  EXPECT_EQ(patience.timeout(), Duration(std::chrono::hours(1)));
}

}  // namespace
}  // namespace lockstep::train
