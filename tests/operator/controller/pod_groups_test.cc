// A gang's PodGroup on the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "operator/kube/rest/object_json.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using ::testing::IsEmpty;
using testing::Job;
using ::testing::SizeIs;
using testing::World;

TEST(PodGroupsTest, AGangSchedulerThatIsSwitchedOnLeavesRunningJobsAsTheyAre) {
  World world(Job("j").Workers(3).RestartScope(api::RestartScope::kPod).Build(),
              {.parallel_calls = 1});
  world.Settle();
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  world.Settle();
  world.RestartOperator({.gang_scheduler_name = "volcano", .parallel_calls = 1});
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-2"});
  world.Settle();
  const auto pod = world.client.Get(kube::kPodKind, {"default", "j-worker-2"});
  ASSERT_TRUE(pod.ok());
  EXPECT_FALSE(pod->at("spec").contains("schedulerName"));
  EXPECT_FALSE(
      pod->at("metadata").value("annotations", kube::Object::object()).contains(kVolcanoGroup));
  EXPECT_EQ(world.client.Count("create", "PodGroup"), 0);
  // Its next attempt is a gang.
  for (const kube::Object& member : world.Pods()) {
    world.client.Remove(kube::kPodKind, {"default", kube::Name(member)});
  }
  world.SetSuspend(true);
  world.Settle();
  world.SetSuspend(false);
  world.Settle();
  EXPECT_EQ(world.client.Count("create", "PodGroup"), 1);
}

TEST(PodGroupsTest, AGangsPodGroupIsCreatedFirstFollowsTheJobsSizeAndGoesAtTheEnd) {
  World world(
      Job("j").Workers(2).Chief().RestartScope(api::RestartScope::kPod).ElasticTorch(2, 4).Build(),
      {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  ASSERT_TRUE(world.Reconcile().ok());
  EXPECT_THAT(world.client.Objects(kind), SizeIs(1));
  EXPECT_THAT(world.Pods(), IsEmpty());
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(3));
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["elastic"]["minReplicas"] = 1; });
  world.Settle();
  EXPECT_EQ(world.client.Objects(kind)[0].at("spec").at("minMember"), 2);
  EXPECT_EQ(world.client.Count("update", "PodGroup"), 1);
  world.SetPod("j-chief-0", "Succeeded");
  world.Settle();
  EXPECT_THAT(world.client.Objects(kind), IsEmpty());
}

TEST(PodGroupsTest, AnUpdateOfThePodGroupKeepsWhatOthersHaveWritten) {
  World world(Job("j").Workers(2).Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.Settle();
  world.client.Modify(kind, world.key, [](kube::Object& group) {
    group["metadata"]["annotations"]["team"] = "vision";
    group["spec"]["queue"] = "default";
    group["spec"]["minTaskMember"] = {{"worker", 2}};
    group["spec"]["minMember"] = 7;
    group["status"]["phase"] = "Running";
  });
  kube::Object wanted = world.client.Objects(kind)[0];
  wanted["spec"]["minMember"] = 2;
  world.Settle();
  kube::Object updated = world.client.Objects(kind)[0];
  for (kube::Object* group : {&wanted, &updated}) {
    for (const char* of_write : {"resourceVersion", "generation"}) {
      group->at("metadata").erase(of_write);
    }
  }
  EXPECT_EQ(updated, wanted);
}

TEST(PodGroupsTest, WhatIsTakenOutOfThePolicyLeavesThePodGroup) {
  World world(Job("j")
                  .Workers(2)
                  .With([](api::TrainingJob& job) {
                    auto& policy = job.spec.run_policy.scheduling_policy.emplace();
                    policy.queue = "night";
                    policy.priority_class = "low";
                    policy.min_resources = {{"cpu", "64"}};
                  })
                  .Build(),
              {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.Settle();
  world.client.Modify(kind, world.key, [](kube::Object& group) { group["spec"]["other"] = 1; });
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["runPolicy"]["schedulingPolicy"] = {{"priorityClass", "low"}};
  });
  world.Settle();
  EXPECT_EQ(world.client.Objects(kind)[0].at("spec"),
            (api::Json{{"minMember", 2}, {"priorityClassName", "low"}, {"other", 1}}));
  world.client.Modify(kind, world.key, [](kube::Object& group) { group.erase("spec"); });
  world.Settle();
  EXPECT_EQ(world.client.Objects(kind)[0].at("spec"),
            (api::Json{{"minMember", 2}, {"priorityClassName", "low"}}));
  // Nobody knows what is the job's in a group that an older operator has made.
  world.client.Modify(kind, world.key, [](kube::Object& group) {
    group["metadata"].erase("annotations");
    group["spec"]["queue"] = "night";
  });
  world.Settle();
  EXPECT_EQ(world.client.Objects(kind)[0].at("spec").at("queue"), "night");
}

// Volcano writes the whole object, with quantities in their shortest form.
TEST(PodGroupsTest, QuantitiesInAnotherFormAreNotWrittenAgain) {
  World world(Job("j")
                  .Workers(2)
                  .With([](api::TrainingJob& job) {
                    job.spec.run_policy.scheduling_policy.emplace().min_resources = {
                        {"cpu", 4}, {"memory", "4096Mi"}, {"example.com/shares", "0.5"}};
                  })
                  .Build(),
              {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.Settle();
  const auto set = [&](const char* cpu) {
    world.client.Modify(kind, world.key, [cpu](kube::Object& group) {
      group["spec"]["minResources"] = {
          {"cpu", cpu}, {"memory", "4Gi"}, {"example.com/shares", "500m"}};
    });
    world.Settle();
  };
  set("4");
  EXPECT_EQ(world.client.Count("update", "PodGroup"), 0);
  set("5");
  EXPECT_EQ(world.client.Count("update", "PodGroup"), 1);
}

TEST(PodGroupsTest, APodGroupThatChangesMeanwhileIsUpdatedOnceThatIsSeen) {
  World world(Job("j").Workers(2).Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.Settle();
  const auto set = [&](const char* member, int value) {
    world.client.Modify(kind, world.key,
                        [&](kube::Object& group) { group["spec"][member] = value; });
  };
  set("minMember", 7);
  world.SyncAll();
  set("other", 1);
  ASSERT_TRUE(world.Reconcile().ok());
  EXPECT_EQ(world.client.Count("update", "PodGroup"), 0);
  world.Settle();
  EXPECT_EQ(world.client.Objects(kind)[0].at("spec").at("minMember"), 2);
  EXPECT_EQ(world.client.Objects(kind)[0].at("spec").at("other"), 1);
}

TEST(PodGroupsTest, APodGroupThatIsTooLargeToReadIsNotUpdatedAndIsReported) {
  World world(Job("j").Workers(2).Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.Settle();
  world.client.Modify(kind, world.key, [](kube::Object& group) { group["spec"] = kube::kTooMany; });
  world.SyncAll();
  const auto done = world.Reconcile();
  EXPECT_TRUE(absl::IsFailedPrecondition(done.status())) << done.status();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "podgroups j: spec: found (too many values), expected an object");
}

TEST(PodGroupsTest, APodGroupOfTheSameNameByAnotherOwnerIsReported) {
  World world(Job("j").Workers(1).Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.client.Add(kind, {{"metadata", {{"name", "j"}, {"namespace", "default"}}}});
  world.SyncAll();
  EXPECT_TRUE(absl::IsAlreadyExists(world.Reconcile().status()));
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "podgroups j exists and belongs to another owner");
}

}  // namespace
}  // namespace lockstep::controller
