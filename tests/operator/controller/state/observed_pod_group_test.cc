#include "operator/controller/state/observed_pod_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/kube/rest/object_json.h"

namespace lockstep::controller {
namespace {

using kube::Object;
using ::testing::IsEmpty;

Object Group() {
  return {{"metadata", {{"name", "j"}, {"namespace", "n"}}},
          {"spec", {{"minMember", 2}, {"queue", "research"}, {"minResources", {{"cpu", "8"}}}}}};
}

// A tenant may give any object our label.
TEST(ObservedPodGroupTest, WhateverAPodGroupHoldsLittleIsKept) {
  Object group = Group();
  for (int i = 0; i < 10'000; ++i) {
    group["spec"]["extra-" + std::to_string(i)] = {{"x", i}};
    group["spec"]["minResources"]["example.com/" + std::to_string(i)] = i;
  }
  group["spec"]["queue"] = std::string(1'000'000, 'x');
  group["status"]["conditions"] = Object(std::vector<int>(10'000, 1));
  const ObservedPodGroup seen = ReadPodGroup(group);
  std::size_t bytes = 0;
  for (const auto& [member, digest] : seen) {
    bytes += sizeof(ObservedPodGroup::value_type) + member.capacity();
  }
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_LT(bytes, 1000U);
}

TEST(ObservedPodGroupTest, EachMemberIsDistinguishedByItsValue) {
  const ObservedPodGroup seen = ReadPodGroup(Group());
  EXPECT_EQ(ReadPodGroup(Group()), seen);
  Object other = Group();
  other["spec"]["minResources"]["cpu"] = "9";
  const ObservedPodGroup changed = ReadPodGroup(other);
  EXPECT_NE(changed.at("minResources"), seen.at("minResources"));
  EXPECT_EQ(changed.at("minMember"), seen.at("minMember"));
}

TEST(ObservedPodGroupTest, WhatIsNotEvenParsedIsNotMissed) {
  Object group = Group();
  group["spec"]["minTaskMember"] = {{"worker", 2}};
  const kube::FieldMask keep = PodGroupFields();
  const auto read = kube::ParseObject(Object({{"object", group}}).dump(), "object", &keep);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->at("object").at("spec").contains("minTaskMember"));
  EXPECT_EQ(ReadPodGroup(read->at("object")), ReadPodGroup(group));
  EXPECT_EQ(kube::KeyOf(read->at("object")), kube::KeyOf(group));
}

TEST(ObservedPodGroupTest, OfWhatIsNoPodGroupNothingIsRead) {
  for (const Object& strange : {Object(), Object("text"), Object{{"spec", kube::kTooMany}}}) {
    EXPECT_THAT(ReadPodGroup(strange), IsEmpty());
  }
}

}  // namespace
}  // namespace lockstep::controller
