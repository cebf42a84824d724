#include "operator/controller/pod_changes.h"

#include <gtest/gtest.h>

#include <functional>

namespace lockstep::controller {
namespace {

using CachedPod = kube::Cached<std::optional<ObservedPod>>;

CachedPod RunningPod() {
  kube::Identity identity;
  identity.key = {"default", "j-worker-0"};
  identity.uid = "uid";
  identity.owner_uid = "j-uid";
  ObservedPod pod;
  pod.phase = PodPhase::kRunning;
  return {identity, pod};
}

TEST(PodChangesTest, WhatIsNotObservedAsksForNothing) {
  const CachedPod before = RunningPod();
  CachedPod after = RunningPod();
  after.resource_version = "9";
  EXPECT_EQ(UrgencyOf(&before, &after), Urgency::kNone);
  for (const auto& change : {std::function([](CachedPod& pod) { pod.uid = "another"; }),
                             std::function([](CachedPod& pod) { pod.owner_uid = "another"; }),
                             std::function([](CachedPod& pod) { pod.owner_kind = "x"; }),
                             std::function([](CachedPod& pod) { pod.being_deleted = true; }),
                             std::function([](CachedPod& pod) { pod.value->ready = true; })}) {
    after = RunningPod();
    change(after);
    EXPECT_NE(UrgencyOf(&before, &after), Urgency::kNone);
  }
}

TEST(PodChangesTest, APodThatIsWellCanWait) {
  const CachedPod after = RunningPod();
  CachedPod before = RunningPod();
  EXPECT_EQ(UrgencyOf(nullptr, &after), Urgency::kSoon);
  before.value->phase = PodPhase::kPending;
  EXPECT_EQ(UrgencyOf(&before, &after), Urgency::kSoon);
  CachedPod succeeded = RunningPod();
  succeeded.value->phase = PodPhase::kSucceeded;
  EXPECT_EQ(UrgencyOf(&before, &succeeded), Urgency::kSoon);
}

TEST(PodChangesTest, ALossCannot) {
  const CachedPod before = RunningPod();
  EXPECT_EQ(UrgencyOf(&before, nullptr), Urgency::kNow);
  for (const auto& loss :
       {std::function([](CachedPod& pod) { pod.value->phase = PodPhase::kFailed; }),
        std::function([](CachedPod& pod) { pod.value->being_deleted = true; }),
        std::function([](CachedPod& pod) { pod.value->disruption_target = true; }),
        std::function([](CachedPod& pod) { pod.value->restart_count = 1; }),
        std::function([](CachedPod& pod) { pod.value->termination = Termination{.exit_code = 1}; }),
        std::function([](CachedPod& pod) { pod.value.reset(); })}) {
    CachedPod after = RunningPod();
    loss(after);
    EXPECT_EQ(UrgencyOf(&before, &after), Urgency::kNow);
  }
}

}  // namespace
}  // namespace lockstep::controller
