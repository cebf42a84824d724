#include "operator/controller/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "operator/controller/job_controller.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/world.h"
#include "tests/support/controller_uid.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::HookedClient;
using ::testing::IsEmpty;
using testing::Job;
using ::testing::SizeIs;
using testing::World;

TEST(ReconcilerTest, AJobOfFourPodsCostsNoMoreWritesThanItMust) {
  World world(Job("j").Workers(4).CleanPodPolicy(api::CleanPodPolicy::kNone).Build());
  world.Settle();
  for (int i = 0; i < 4; ++i) {
    world.SetPod("j-worker-" + std::to_string(i), "Running");
    world.Settle();
    world.clock.Advance(seconds(1));
  }
  EXPECT_EQ(world.Job()->status.state, "Running");
  for (int i = 3; i >= 0; --i) world.SetPod("j-worker-" + std::to_string(i), "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_EQ(world.client.Count("create", "Service"), 1);
  EXPECT_EQ(world.client.Count("create", "Pod"), 4);
  EXPECT_EQ(world.client.Count("update-status", "TrainingJob"), 3);
  EXPECT_THAT(world.EventReasons(), ElementsAre("Running", "Succeeded"));
  EXPECT_THAT(world.client.writes(), SizeIs(1 + 1 + 4 + 3 + 2));  // and the job itself
}

// What all creates under way take of memory is bounded by this, whatever a tenant's template holds.
TEST(ReconcilerTest, LargePodsAreCreatedOneAtATime) {
  api::Json pod_template = testing::Template("mine");
  pod_template["spec"]["containers"][0]["args"] = {std::string(250'000, 'x')};
  World world(Job("j").Workers(4).PodTemplate(api::Role::kWorker, pod_template).Build(),
              {.parallel_calls = 4});
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0;
  bool together = false;
  world.client.SetBefore([&](const HookedClient::Call& call) {
    if (call.verb != "create" || call.kind != "Pod") return absl::OkStatus();
    std::unique_lock lock(mutex);
    const int own = ++begun;
    changed.notify_all();
    // Only another thread's create, while this one is under way, ends the wait.
    if (changed.wait_for(lock, milliseconds(100), [&] { return begun > own; })) together = true;
    return absl::OkStatus();
  });
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(4));
  EXPECT_FALSE(together);
}

TEST(ReconcilerTest, OfADeletedJobNoEventIsRemembered) {
  World world(Job("j").Workers(1).Build());
  world.Settle();
  kube::Identity job;
  job.key = world.key;
  job.uid = world.Job()->metadata.uid;
  const auto record = [&] {
    world.events().Record(kTrainingJobKind, job, kube::EventType::kNormal, "Reason", "Action", "x");
  };
  record();
  const int before = world.client.Count("create", "Event");
  record();
  EXPECT_EQ(world.client.Count("create", "Event"), before) << "it counts up the first";
  ASSERT_TRUE(world.client.Delete(kTrainingJobKind, world.key, {.uid = job.uid}).ok());
  world.SyncAll();
  ASSERT_TRUE(world.Reconcile().ok());
  record();
  EXPECT_EQ(world.client.Count("create", "Event"), before + 1);
}

TEST(ReconcilerTest, WhatALookParsesOfAJobGoesWithTheLook) {
  World world(Job("j").Workers(2).Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_FALSE(world.HeldJob().job.spec.replica_specs.at(api::Role::kWorker).tmpl.is_parsed());
}

TEST(ReconcilerTest, AnOperatorThatWasAwayFailsNoPendingJobThatHasBegunMeanwhile) {
  World world(Job("j").Workers(2).PendingDeadlineSeconds(60).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.clock.Advance(std::chrono::hours(1));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.RestartOperator();
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Pending");
  world.clock.Advance(std::chrono::seconds(60));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed") << "this process has seen it wait for so long";
}

TEST(ReconcilerTest, ANewerSchemasFieldsDoNotTouchAJob) {
  World world(Job("j").Workers(2).Training().Build());
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["newSection"] = {{"on", true}};
    job["spec"]["training"]["newField"] = 3;
    job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = 9'999'999'999;
  });
  const std::size_t writes = world.client.writes().size();
  world.Settle();
  EXPECT_THAT(world.client.writes(), SizeIs(writes + 1)) << "the generation that it has seen";
  EXPECT_EQ(world.Job()->status.observed_generation, 2);
  EXPECT_EQ(world.Job()->status.state, "Pending");
}

// `kubectl wait`, Flux and Helm wait until the generation is observed.
TEST(ReconcilerTest, AnEditOfAJobThatHasEndedIsObservedAndChangesNothingElse) {
  World world(Job("j").Workers(1).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  api::TrainingJobStatus expected = world.Job()->status;
  ASSERT_EQ(expected.state, "Succeeded");
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = 86'400;
  });
  const std::size_t writes = world.client.writes().size();
  world.Settle();
  EXPECT_THAT(world.client.writes(), SizeIs(writes + 1));
  expected.observed_generation = 2;
  for (api::Condition& condition : expected.conditions) condition.observed_generation = 2;
  EXPECT_EQ(world.Job()->status, expected);
}

TEST(ReconcilerTest, AnEditBeforeTheEndCostsNoWriteAfterIt) {
  World world(Job("j").Workers(1).Build());
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = 86'400;
  });
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  const api::TrainingJobStatus ended = world.Job()->status;
  ASSERT_EQ(ended.state, "Succeeded");
  ASSERT_EQ(FindCondition(ended, kCreated)->observed_generation, 1);
  const std::size_t writes = world.client.writes().size();
  world.Settle();
  EXPECT_THAT(world.client.writes(), SizeIs(writes));
  EXPECT_EQ(world.Job()->status, ended);
}

TEST(ReconcilerTest, ARunningJobWhoseSpecCannotBeReadAnyMoreIsLeftAsItIs) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["restartScope"] = "Newest"; });
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_EQ(world.client.Count("delete", "Pod"), 0);
  const auto status = world.client.Get(kTrainingJobKind, world.key)->at("status");
  EXPECT_EQ(status.at("state"), "Running");
  EXPECT_NE(status.dump().find("spec.restartScope: found"), std::string::npos);
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["restartScope"] = "Gang"; });
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

TEST(ReconcilerTest, APodThatWasGoneBeforeTheCacheSawItIsRecreated) {
  World world(Job("j").Workers(1).Build());
  ASSERT_TRUE(world.Reconcile().ok());
  world.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
}

TEST(ReconcilerTest, AnUnreadableJobFailsWithTheFieldAndIsLeftAlone) {
  World world(Job("j").Workers(1).Build());
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["replicaSpecs"]["Worker"]["replicas"] = "two";
  });
  world.Settle();
  const auto status = world.client.Get(kTrainingJobKind, world.key)->at("status");
  EXPECT_EQ(status.at("state"), "Failed");
  EXPECT_NE(status.dump().find("spec.replicaSpecs.Worker.replicas"), std::string::npos);
  EXPECT_EQ(world.client.Count("create", "Pod"), 0);
}

// What has completed has no meaning for replicas that train together.
TEST(ReconcilerTest, AnIndependentJobThatBecomesAGangWhileItIsSuspendedTrainsWhole) {
  World world(Job("j").Workers(3).Training().Strategy(api::StrategyType::kIndependent).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1", "j-worker-2"}) world.SetPod(pod, "Running");
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  const auto edit = [&world](const std::function<void(kube::Object&)>& change) {
    world.client.Modify(kTrainingJobKind, world.key, change);
    world.Settle();
  };
  edit([](kube::Object& job) { job["spec"]["suspend"] = true; });
  EXPECT_THAT(world.Job()->status.completed_indexes, ElementsAre(0));
  edit([](kube::Object& job) { job["spec"]["strategy"]["type"] = "MultiWorkerMirrored"; });
  EXPECT_EQ(world.Job()->status.state, "Suspended");
  edit([](kube::Object& job) { job["spec"]["suspend"] = false; });
  EXPECT_EQ(world.Pods().size(), 3U);
  EXPECT_THAT(world.Job()->status.completed_indexes, IsEmpty());
}

TEST(ReconcilerTest, ItKnowsSinceWhenAJobLacksReplicas) {
  World world(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
  const auto since = [&world] { return world.reconciler->signs().at(world.key).short_since(); };
  EXPECT_EQ(since(), std::nullopt);
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
  const Time lost = world.clock.Now();
  world.clock.Advance(std::chrono::hours(1));
  world.Settle();
  EXPECT_EQ(since(), lost);
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  EXPECT_EQ(since(), std::nullopt);
  world.client.Remove(kTrainingJobKind, world.key);
  world.Settle();
  EXPECT_THAT(world.reconciler->signs(), IsEmpty());
}

TEST(ReconcilerTest, ANamesakeOfADeletedJobStartsAfresh) {
  World world(Job("j").Workers(1).Build());
  world.Settle();
  const kube::Object old = world.Pods().front();
  world.client.Remove(kTrainingJobKind, world.key);
  ASSERT_TRUE(
      world.client.Create(kTrainingJobKind, api::TrainingJobToJson(Job("j").Workers(1).Build()))
          .ok());
  world.Settle();  // the old pod still has the name
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "NameConflict");
  world.client.Remove(kube::kPodKind, kube::KeyOf(old));
  world.client.Remove(kube::kServiceKind, {"default", "j"});
  world.Settle();  // their ends are the sign, no time passes
  ASSERT_THAT(world.Pods(), SizeIs(1));
  EXPECT_THAT(world.client.Objects(kube::kServiceKind), SizeIs(1));
  EXPECT_EQ(kube::ControllerUid(world.Pods().front()), world.Job()->metadata.uid);
}

// The composition, with its own threads: a job goes from creation to success.
TEST(JobControllerTest, RunsAJobFromCreationToSuccess) {
  HookedClient client;
  const SystemClock clock;
  const DnsAddresses addresses;
  NoProgress progress;
  JobController controller(client, addresses, progress, clock);
  controller.Start();
  const auto job = Job("j").Workers(2).CleanPodPolicy(api::CleanPodPolicy::kNone).Build();
  ASSERT_TRUE(client.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
  const auto wait_for = [&client](const std::string& state) {
    while (true) {
      const auto current = client.Get(kTrainingJobKind, {"default", "j"});
      const auto status = current->value("status", kube::Object::object());
      if (status.value("state", "") == state) return;
      std::this_thread::yield();
    }
  };
  wait_for("Pending");
  for (const auto& [phase, state] : {std::pair("Running", "Running"), {"Succeeded", "Succeeded"}}) {
    for (const char* name : {"j-worker-0", "j-worker-1"}) {
      client.Modify(kube::kPodKind, {"default", name}, [&phase](kube::Object& pod) {
        pod["status"] = {{"phase", phase},
                         {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}};
      });
    }
    wait_for(state);
  }
  EXPECT_TRUE(controller.HasSynced());
  controller.Stop();
}

}  // namespace
}  // namespace lockstep::controller
