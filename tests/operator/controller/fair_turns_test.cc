#include "operator/controller/fair_turns.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr SteadyTime kStart = SteadyTime(seconds(1000));

kube::Key Job(const std::string& namespace_name, int i) {
  return {namespace_name, "j" + std::to_string(i)};
}

TEST(FairTurnsTest, ABurstIsGrantedAtOnceAndThenOneTurnPerInterval) {
  FairTurns turns(/*rate=*/1, /*burst=*/2);
  const Duration none = Duration::zero();
  EXPECT_EQ(turns.Wait(Job("a", 0), kStart, none), none);
  EXPECT_EQ(turns.Wait(Job("a", 1), kStart, none), none);
  EXPECT_EQ(turns.Wait(Job("a", 2), kStart, none), seconds(1));
  EXPECT_EQ(turns.Wait(Job("a", 3), kStart, none), seconds(2));
  EXPECT_EQ(turns.Wait(Job("a", 3), kStart + seconds(1), none), seconds(1));
  EXPECT_EQ(turns.Wait(Job("a", 2), kStart + seconds(1), none), none);
  EXPECT_EQ(turns.Wait(Job("a", 2), kStart + seconds(1), none), none) << "a turn is kept";
  EXPECT_EQ(turns.Wait(Job("a", 3), kStart + seconds(2), none), none);
}

TEST(FairTurnsTest, ManyJobsOfOneNamespaceDelayAnotherByOneTurn) {
  FairTurns turns(/*rate=*/1, /*burst=*/1);
  const Duration none = Duration::zero();
  for (int i = 0; i < 100; ++i) turns.Wait(Job("many", i), kStart, none);
  EXPECT_EQ(turns.Wait(Job("few", 0), kStart, none), seconds(2));
  EXPECT_EQ(turns.Wait(Job("few", 1), kStart, none), seconds(4));
  EXPECT_EQ(turns.Wait(Job("many", 99), kStart, none), seconds(99 + 2));
  EXPECT_EQ(turns.Wait(Job("few", 0), kStart + seconds(2), none), none);
  EXPECT_EQ(turns.Wait(Job("many", 1), kStart + seconds(2), none), none);
  EXPECT_EQ(turns.Wait(Job("many", 2), kStart + seconds(2), none), seconds(1));
}

TEST(FairTurnsTest, AJobThatLeavesMakesRoom) {
  FairTurns turns(/*rate=*/1, /*burst=*/1);
  const Duration none = Duration::zero();
  EXPECT_EQ(turns.Wait(Job("a", 0), kStart, none), none);
  for (int i = 1; i < 4; ++i) turns.Wait(Job("a", i), kStart, none);
  turns.Wait(Job("b", 0), kStart, none);
  turns.Drop(Job("b", 0));
  turns.Drop(Job("a", 2));
  EXPECT_EQ(turns.Wait(Job("a", 3), kStart, none), seconds(2));
  turns.Drop(Job("a", 0));
  EXPECT_EQ(turns.Wait(Job("a", 0), kStart, none), seconds(3)) << "it is new in line";
}

TEST(FairTurnsTest, TurnsAreApartAsTold) {
  FairTurns turns(/*rate=*/1000, /*burst=*/1);
  EXPECT_EQ(turns.Wait(Job("a", 0), kStart, milliseconds(100)), Duration::zero());
  EXPECT_EQ(turns.Wait(Job("a", 1), kStart, milliseconds(100)), milliseconds(100));
  EXPECT_EQ(turns.Wait(Job("b", 0), kStart, milliseconds(100)), milliseconds(200));
}

TEST(FairTurnsTest, WithoutALimitNobodyWaits) {
  FairTurns turns(/*rate=*/0, /*burst=*/0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(turns.Wait(Job("a", i), kStart, milliseconds(100)), Duration::zero());
  }
}

}  // namespace
}  // namespace lockstep::controller
