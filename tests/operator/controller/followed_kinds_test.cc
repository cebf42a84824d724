#include "operator/controller/followed_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace lockstep::controller {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Followed(const Settings& settings) {
  std::vector<std::string> kinds;
  ForEachFollowedKind(settings,
                      [&](const auto& followed) { kinds.push_back(followed.kind.plural); });
  return kinds;
}

// Empty caches, as a JobController has them.
class StoresTest : public ::testing::Test {
 protected:
  StoresTest() {
    const Settings settings{.gang_scheduler_name = "volcano"};
    ForEachFollowedKind(settings, [this]<typename Value>(const FollowedKind<Value>& followed) {
      if constexpr (std::is_same_v<Value, ObservedPodGroup>) {
        AddStore(followed, pod_groups_, stores_);
      } else if constexpr (std::is_same_v<Value, std::optional<ObservedPod>>) {
        AddStore(followed, pods_, stores_);
      } else if constexpr (std::is_same_v<Value, ObservedJob>) {
        AddStore(followed, jobs_, stores_);
      }
    });
  }

  kube::Store<ObservedJob> jobs_;
  kube::Store<std::optional<ObservedPod>> pods_;
  kube::Store<ObservedPodGroup> pod_groups_;
  Stores stores_;
};

TEST(FollowedKindsTest, WhatIsOptionalIsFollowedOnlyIfItIsSet) {
  EXPECT_THAT(Followed({}), ElementsAre("trainingjobs", "pods", "services"));
  EXPECT_THAT(Followed({.gang_scheduler_name = "volcano", .kueue = true, .watch_nodes = true}),
              ElementsAre("trainingjobs", "pods", "services", "podgroups", "workloads", "nodes"));
}

TEST_F(StoresTest, AChildsStoreIsFoundByItsKind) {
  EXPECT_EQ(&StoreOf(stores_, kube::kPodKind), stores_.pods);
  EXPECT_EQ(&StoreOf(stores_, PodGroupKind({.gang_scheduler_name = "volcano"})),
            stores_.pod_groups);
}

TEST_F(StoresTest, AKindThatIsNoFollowedChildHasNoStore) {
  EXPECT_THROW(StoreOf(stores_, kWorkloadKind), CheckFailure) << "not that of PodGroups";
  EXPECT_THROW(StoreOf(stores_, kube::kSecretKind), CheckFailure);
  EXPECT_THROW(StoreOf(stores_, kTrainingJobKind), CheckFailure) << "followed, but no child";
}

}  // namespace
}  // namespace lockstep::controller
