#include "operator/kube/runtime/recent_events.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

constexpr RecentEvents::Limits kLimits{
    .of_namespace = 3, .in_all = 5, .age = std::chrono::minutes(10)};

struct RecentEventsTest : ::testing::Test {
  void Remember(const std::string& space, const std::string& uid, std::uint64_t digest = 0) {
    recent.Remember(space, {uid, digest}, {.name = uid}, now);
    now += std::chrono::seconds(1);
  }
  bool Knows(const std::string& uid, std::uint64_t digest = 0) {
    return recent.Find({uid, digest}, now).has_value();
  }

  SteadyTime now{std::chrono::hours(1)};
  RecentEvents recent{kLimits};
};

TEST_F(RecentEventsTest, TheLatestVersionOfAnEventIsFound) {
  Remember("a", "u", 1);
  recent.Remember("a", {"u", 1}, {"event", "7", "then", 2}, now);
  EXPECT_EQ(recent.Find({"u", 1}, now)->count, 2);
  EXPECT_EQ(recent.Find({"u", 1}, now)->resource_version, "7");
  EXPECT_FALSE(Knows("u", 2));
  EXPECT_EQ(recent.size(), 1U);
}

TEST_F(RecentEventsTest, AFullNamespaceLosesItsOldest) {
  for (const char* uid : {"1", "2", "3"}) Remember("a", uid);
  Remember("a", "1");  // again, so 2 is the oldest
  Remember("a", "4");
  EXPECT_TRUE(Knows("1") && Knows("3") && Knows("4"));
  EXPECT_FALSE(Knows("2"));
}

TEST_F(RecentEventsTest, WithoutRoomTheNamespaceWithTheMostLosesItsOldest) {
  Remember("honest", "h");
  for (const char* uid : {"1", "2", "3"}) Remember("crowd", uid);
  Remember("other", "o");
  Remember("late", "l");
  EXPECT_TRUE(Knows("h") && Knows("o") && Knows("l"));
  EXPECT_FALSE(Knows("1"));
  EXPECT_EQ(recent.size(), 5U);
}

TEST_F(RecentEventsTest, OldOnesGoWhoeverIsAskedFor) {
  Remember("a", "1");
  Remember("b", "2");
  now += std::chrono::minutes(9);
  Remember("a", "3");
  now += std::chrono::minutes(2);
  EXPECT_FALSE(Knows("2"));
  EXPECT_EQ(recent.size(), 1U);
  now += std::chrono::minutes(10);
  EXPECT_FALSE(Knows("3"));
  EXPECT_EQ(recent.size(), 0U);
}

TEST_F(RecentEventsTest, AForgottenObjectTakesAllItsEventsAlong) {
  Remember("a", "u", 1);
  Remember("a", "u", 2);
  Remember("a", "v", 1);
  recent.Forget("u");
  recent.Forget("nobody");
  EXPECT_FALSE(Knows("u", 1) || Knows("u", 2));
  EXPECT_TRUE(Knows("v", 1));
}

}  // namespace
}  // namespace lockstep::kube
