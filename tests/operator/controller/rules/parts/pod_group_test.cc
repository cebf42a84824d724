#include "operator/controller/rules/parts/pod_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/children/gang.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using ::testing::ElementsAre;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::Seen;

const Settings kVolcano{.gang_scheduler_name = "volcano"};

Seen WithVolcano(const testing::JobBuilder& job) {
  return Seen(job).With([](Observed& observed) { observed.settings = kVolcano; });
}
const testing::PodState kInVolcano = [](ObservedPod& pod) {
  kReady(pod);
  pod.in_volcano_group = true;
};
void GroupAsWanted(Observed& observed) {
  observed.pod_group = ReadPodGroup(BuildPodGroup(observed.job, observed.settings));
}

TEST(PodGroupTest, ThePodGroupComesBeforePods) {
  Seen seen = WithVolcano(Job("j").Workers(2));
  EXPECT_THAT(seen.Plan().actions, ElementsAre(CreateService{}, CreatePodGroup{}));
  seen.Service().With(GroupAsWanted);
  EXPECT_THAT(seen.Plan().actions,
              ElementsAre(CreatePod{Role::kWorker, 0, 0}, CreatePod{Role::kWorker, 1, 0}));
}

TEST(PodGroupTest, WhatASchedulerAddsToThePodGroupIsLeftAlone) {
  Seen seen = WithVolcano(Job("j").Workers(1));
  seen.Service().Worker(0, kInVolcano).With(GroupAsWanted);
  const auto edit = [&seen](const char* member, const kube::Object& value) {
    seen.With([&](Observed& observed) {
      kube::Object group = BuildPodGroup(observed.job, observed.settings);
      group["spec"][member] = value;
      observed.pod_group = ReadPodGroup(group);
    });
  };
  edit("queue", "default");
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  edit("minMember", 7);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(UpdatePodGroup{}));
}

// Alone in a group of three, it would never be placed.
TEST(PodGroupTest, APodThatReplacesOneOfAnAttemptWithoutAGroupHasNoneEither) {
  const auto job = Job("j").Workers(3).RestartScope(api::RestartScope::kPod);
  CreatePod outside{Role::kWorker, 2, 0};
  outside.without_gang = true;
  Seen seen = WithVolcano(job);
  seen.Running().Service().Worker(0, kReady).Worker(1, kReady);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(outside));
  Seen other = WithVolcano(job);
  other.Running().Service().Worker(0, kInVolcano).Worker(1, kInVolcano).With(GroupAsWanted);
  EXPECT_THAT(other.Plan().actions, ElementsAre(CreatePod{Role::kWorker, 2, 0}));
  Seen switched = other;
  switched.With([](Observed& observed) { observed.settings.gang_scheduler_name = "other"; });
  EXPECT_THAT(switched.Plan().actions, ElementsAre(outside));
  // A template's mark for the other scheduler says nothing.
  other.With([](Observed& observed) { observed.pods[0].in_plugins_group = true; });
  EXPECT_THAT(other.Plan().actions, ElementsAre(CreatePod{Role::kWorker, 2, 0}));
}

TEST(PodGroupTest, ItGoesWhenTheJobEndsOrIsSuspended) {
  Seen ended = WithVolcano(Job("j").Workers(1).CleanPodPolicy(api::CleanPodPolicy::kNone));
  ended.Service().Worker(0, Exited(0)).With(GroupAsWanted).Write();
  EXPECT_THAT(ended.Plan().actions, ElementsAre(DeletePodGroup{}));
  Seen suspended = WithVolcano(Job("j").Workers(1).Suspended());
  suspended.With(GroupAsWanted).Write();
  EXPECT_THAT(suspended.Plan().actions, ElementsAre(DeletePodGroup{}));
}

TEST(PodGroupTest, APolicyThatNobodyReadsIsReportedOnce) {
  Seen seen(Job("j").Workers(1).With([](api::TrainingJob& job) {
    job.spec.run_policy.scheduling_policy.emplace().queue = "research";
  }));
  ASSERT_EQ(seen.Plan().events.size(), 1U);
  EXPECT_EQ(seen.Plan().events[0].reason, "SchedulingPolicyIgnored");
  EXPECT_THAT(seen.Write().Plan().events, IsEmpty());
}

}  // namespace
}  // namespace lockstep::controller
