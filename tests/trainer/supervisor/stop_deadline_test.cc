#include "trainer/supervisor/stop_deadline.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

constexpr SteadyTime kStart = SteadyTime() + 1h;

TEST(StopGraceTest, IsThePodsLessSomeTimeForItsOwnEnd) {
  EXPECT_EQ(StopGrace(10min), Duration(9min + 55s));
  EXPECT_EQ(StopGrace(30s), Duration(25s));
  EXPECT_EQ(StopGrace(6s), Duration(5s));
  EXPECT_EQ(StopGrace(0s), Duration::zero());
}

class StopDeadlineTest : public ::testing::Test {
 protected:
  // Returns how long after kStart the replicas are killed if one of them saves, or does not.
  Duration KilledAfter(bool saves) {
    SteadyTime now = kStart;
    while (!deadline_.IsDue(now, saves)) now = *deadline_.next();
    return now - kStart;
  }

  StopDeadline deadline_{/*grace=*/25s, /*longest_save=*/30min};
};

TEST_F(StopDeadlineTest, APodThatDoesNotStopHasNone) {
  EXPECT_FALSE(deadline_.is_set());
  EXPECT_FALSE(deadline_.IsDue(kStart + 1h, false));
}

TEST_F(StopDeadlineTest, WhoeverAsksThePodToStopDoesNotWaitForASave) {
  deadline_.Asked(kStart);
  deadline_.Asked(kStart + 5s);
  EXPECT_EQ(KilledAfter(/*saves=*/true), 25s);
}

TEST_F(StopDeadlineTest, AFailedPodWaitsForASave) {
  deadline_.Failed(kStart);
  EXPECT_EQ(KilledAfter(/*saves=*/true), 30min);
}

TEST_F(StopDeadlineTest, AFailedPodDoesNotWaitForAnythingElse) {
  deadline_.Failed(kStart);
  EXPECT_EQ(KilledAfter(/*saves=*/false), 25s);
}

TEST_F(StopDeadlineTest, TheEndOfTheSaveEndsTheWait) {
  deadline_.Failed(kStart);
  EXPECT_FALSE(deadline_.IsDue(kStart + 25s, /*saves=*/true));
  EXPECT_TRUE(deadline_.IsDue(*deadline_.next(), /*saves=*/false));
}

TEST_F(StopDeadlineTest, AFailedPodThatIsAskedToStopHasTheGracePeriodFromThenOn) {
  deadline_.Failed(kStart);
  deadline_.Asked(kStart + 10s);
  EXPECT_EQ(KilledAfter(/*saves=*/true), 35s);
}

TEST_F(StopDeadlineTest, APodWithASuccessorWaitsForASaveAsLongAsThatOneWaits) {
  deadline_.Superseded(kStart, 4min);
  EXPECT_EQ(KilledAfter(/*saves=*/true), 4min);
}

TEST_F(StopDeadlineTest, APodWithASuccessorHasItsGracePeriodHoweverSoonThatOneGivesUp) {
  deadline_.Superseded(kStart, -10s);
  EXPECT_EQ(KilledAfter(/*saves=*/true), 25s);
}

TEST_F(StopDeadlineTest, APodWithASuccessorDoesNotWaitForAnythingElse) {
  deadline_.Superseded(kStart, 4min);
  EXPECT_EQ(KilledAfter(/*saves=*/false), 25s);
}

TEST_F(StopDeadlineTest, ThereIsOneKill) {
  deadline_.Failed(kStart);
  EXPECT_TRUE(deadline_.IsDue(kStart + 25s, false));
  deadline_.Asked(kStart + 26s);
  EXPECT_FALSE(deadline_.IsDue(kStart + 1h, false));
}

}  // namespace
}  // namespace lockstep::train
