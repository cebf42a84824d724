#include "operator/kube/object.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/controller_uid.h"

namespace lockstep::kube {
namespace {

TEST(ObjectTest, ReadsMetadata) {
  const Object pod = {
      {"metadata",
       {{"name", "a"},
        {"namespace", "n"},
        {"uid", "u"},
        {"resourceVersion", "7"},
        {"deletionTimestamp", "2026-01-01T00:00:00Z"},
        {"labels", {{"k", "v"}}},
        {"ownerReferences", {{{"uid", "x"}}, {{"uid", "owner"}, {"controller", true}}}}}}};
  EXPECT_EQ(KeyOf(pod), (Key{"n", "a"}));
  EXPECT_EQ(Uid(pod), "u");
  EXPECT_EQ(ResourceVersion(pod), "7");
  EXPECT_EQ(Label(pod, "k"), "v");
  EXPECT_TRUE(IsBeingDeleted(pod));
  EXPECT_EQ(ControllerUid(pod), "owner");
}

TEST(ObjectTest, WhatIsMissingOrOfAnotherTypeIsEmpty) {
  const Object strange[] = {Object(),
                            Object(3),
                            Object::array(),
                            {{"metadata", 1}},
                            {{"metadata", {{"name", 2}, {"labels", "x"}, {"ownerReferences", 5}}}},
                            {{"metadata", {{"ownerReferences", {1, {{"controller", "yes"}}}}}}}};
  for (const Object& object : strange) {
    EXPECT_EQ(KeyOf(object), Key());
    EXPECT_EQ(Label(object, "k"), "");
    EXPECT_FALSE(IsBeingDeleted(object));
    EXPECT_EQ(ControllerUid(object), "");
  }
}

TEST(ObjectTest, ANumberBeyondTheRangeIsTheNearestInIt) {
  constexpr std::int64_t kInt32 = std::int64_t{1} << 31;
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  struct Case {
    Object number;
    int as_int;
    std::int64_t as_int64;
  };
  const Case cases[] = {
      {7, 7, 7},
      {kInt32 - 1, 2'147'483'647, kInt32 - 1},
      {kInt32, 2'147'483'647, kInt32},
      {2 * kInt32, 2'147'483'647, 2 * kInt32},
      {-kInt32 - 1, -2'147'483'647 - 1, -kInt32 - 1},
      {kLeast, -2'147'483'647 - 1, kLeast},
      {std::numeric_limits<std::uint64_t>::max(), 2'147'483'647, kMost},
      {1.5, 0, 0},
      {"7", 0, 0},
  };
  for (const Case& c : cases) {
    const Object object = {{"n", c.number}};
    EXPECT_EQ(IntMember(object, "n"), c.as_int) << object;
    EXPECT_EQ(Int64Member(object, "n"), c.as_int64) << object;
  }
}

TEST(ObjectTest, FindsConditionsByTheirType) {
  const Object status = {
      {"conditions",
       {7, {{"type", "A"}, {"status", "False"}}, {{"type", "B"}, {"status", "True"}}}}};
  EXPECT_EQ(ConditionOf(status, "A"), status.at("conditions").at(1));
  EXPECT_FALSE(IsTrueCondition(ConditionOf(status, "A")));
  EXPECT_TRUE(IsTrueCondition(ConditionOf(status, "B")));
  EXPECT_TRUE(ConditionOf(status, "C").is_null());
  EXPECT_FALSE(IsTrueCondition(ConditionOf(status, "C")));
}

TEST(ObjectTest, WhatIsNoListHasNoEntries) {
  const Object strange[] = {Object(), Object("conditions"), {{"conditions", "A"}}};
  for (const Object& object : strange) {
    EXPECT_EQ(ListMember(object, "conditions"), Object::array());
    EXPECT_TRUE(ConditionOf(object, "A").is_null());
  }
}

TEST(ObjectTest, CoreKindsHaveNoGroupInTheirApiVersion) {
  EXPECT_EQ(kPodKind.ApiVersion(), "v1");
  EXPECT_EQ(kEventKind.ApiVersion(), "events.k8s.io/v1");
}

}  // namespace
}  // namespace lockstep::kube
