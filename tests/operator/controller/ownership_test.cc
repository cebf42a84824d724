// Which objects are a job's own: those of its labels and its uid, whoever else has taken their
// names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <tuple>

#include "api/v1/names.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/world.h"
#include "tests/support/controller_uid.h"

namespace lockstep::controller {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::HookedClient;
using ::testing::IsEmpty;
using testing::Job;
using ::testing::SizeIs;
using testing::World;

// Returns worker 0's pod of the world's job, of which only the metadata can be read.
kube::Object BarePod(World& world) {
  kube::Object pod = {{"metadata", {{"name", "j-worker-0"}, {"namespace", "default"}}}};
  pod["metadata"]["labels"][api::kLabelJobUid] = world.Job()->metadata.uid;
  pod["metadata"]["ownerReferences"] = {{{"apiVersion", api::kApiVersion},
                                         {"kind", api::kKind},
                                         {"name", "j"},
                                         {"uid", world.Job()->metadata.uid},
                                         {"controller", true}}};
  return pod;
}

// The watch does not show it: it selects by that label.
TEST(OwnershipTest, APodOfTheJobWithoutItsLabelIsReportedAndReplaced) {
  for (const char* label : {"", "another"}) {
    World world(Job("j").Workers(1).Build());
    world.SyncAll();
    kube::Object pod = BarePod(world);
    pod["metadata"]["labels"][api::kLabelJobUid] = label;
    world.client.Add(kube::kPodKind, pod);
    EXPECT_FALSE(world.Reconcile().ok());
    EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
              "pods j-worker-0 lacks the label training.lockstep.dev/job-uid=" +
                  world.Job()->metadata.uid + ", so the operator deletes it");
    EXPECT_EQ(world.client.Count("delete", "Pod"), 1);
    world.clock.Advance(seconds(1));
    world.Settle();
    ASSERT_THAT(world.Pods(), SizeIs(1));
    EXPECT_EQ(kube::Label(world.Pods()[0], api::kLabelJobUid), world.Job()->metadata.uid);
  }
}

kube::Object WithoutLabel(World& world, kube::Object object) {
  object["metadata"]["name"] = "j";
  object["metadata"]["namespace"] = "default";
  object["metadata"]["ownerReferences"] = BarePod(world)["metadata"]["ownerReferences"];
  return object;
}

TEST(OwnershipTest, AServiceOfTheJobWithoutItsLabelIsReportedAndLeft) {
  World world(Job("j").Workers(1).Build());
  world.SyncAll();
  world.client.Add(kube::kServiceKind, WithoutLabel(world, {{"spec", {{"clusterIP", "None"}}}}));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
  EXPECT_THAT(world.EventReasons(), ElementsAre("LabelMissing"));
  world.SetPod("j-worker-0", "Running");
  world.Settle();
  world.clock.Advance(seconds(60));
  world.Settle();
  EXPECT_EQ(world.client.Count("create", "Service"), 1) << "not in each reconcile";
  EXPECT_EQ(world.client.Count("delete", "Service"), 0);
}

TEST(OwnershipTest, AWorkloadOrPodGroupOfTheJobWithoutItsLabelIsReportedAndReplaced) {
  World world(Job("j").Workers(1).Build(), {.gang_scheduler_name = "volcano"});
  world.SyncAll();
  const kube::Kind& kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.client.Add(kind, WithoutLabel(world, {{"spec", {{"minMember", 1}}}}));
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "podgroups j lacks the label training.lockstep.dev/job-uid=" +
                world.Job()->metadata.uid + ", so the operator deletes it");
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
}

TEST(OwnershipTest, APodThatExistsButCannotBeReadIsReported) {
  World world(Job("j").Workers(1).Build());
  world.client.Add(kube::kPodKind, BarePod(world));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "pods j-worker-0 exists and cannot be read");
}

TEST(OwnershipTest, AnObjectThatExistsAlreadyIsOursOnlyByItsOwnersUid) {
  World world(Job("j").Workers(2).Build());
  world.client.Add(kube::kPodKind, {{"metadata",
                                     {{"name", "j-worker-1"},
                                      {"namespace", "default"},
                                      {"labels", {{"training.lockstep.dev/role", "worker"}}}}}});
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "NameConflict");
  EXPECT_THAT(world.EventReasons(), ElementsAre("NameConflict"));
  const int tried = world.client.Count("create", "Pod");
  world.clock.Advance(seconds(30));
  world.Settle();
  EXPECT_EQ(world.client.Count("create", "Pod"), tried);  // no storm
  EXPECT_EQ(world.client.Count("delete", "Pod"), 0);
  // When the stranger has gone, the job goes on by itself.
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.clock.Advance(seconds(31));
  world.Settle();
  EXPECT_EQ(kube::ControllerUid(*world.client.Get(kube::kPodKind, {"default", "j-worker-1"})),
            world.Job()->metadata.uid);
}

// They would not find each other, fail, and cost the job its restarts.
TEST(OwnershipTest, NoPodsThatNeedTheirServiceStartWhileAnotherHasItsName) {
  const auto bundled = [](int workers) { return Job("j").Workers(workers).Training(); };
  const std::tuple<api::TrainingJob, int, bool> cases[] = {
      {bundled(2).Build(), 2, true},
      {bundled(1).Build(), 1, false},
      {bundled(2).Strategy(api::StrategyType::kIndependent).Build(), 2, false},
      {Job("j").Workers(1).Build(), 1, true}};  // torchrun looks for its own pod
  for (const auto& [job, workers, needs_service] : cases) {
    World world(job);
    world.client.Add(kube::kServiceKind, {{"metadata", {{"name", "j"}, {"namespace", "default"}}}});
    world.Settle();
    world.clock.Advance(seconds(1));
    world.Settle();
    EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "NameConflict");
    EXPECT_THAT(world.Pods(), SizeIs(needs_service ? 0 : workers));
    world.client.Remove(kube::kServiceKind, {"default", "j"});
    world.clock.Advance(seconds(61));
    world.Settle();
    EXPECT_THAT(world.Pods(), SizeIs(workers));
    EXPECT_THAT(world.client.Objects(kube::kServiceKind), SizeIs(1));
  }
}

// Pods of somebody else that have the names of a job's.
void TakeNames(World& world, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string name = "j-worker-" + std::to_string(i);
    world.client.Add(kube::kPodKind, {{"metadata", {{"name", name}, {"namespace", "default"}}}});
  }
}

TEST(OwnershipTest, OfManyTakenNamesAFewAreAskedForAtATime) {
  World world(Job("j").Workers(150).Build());
  TakeNames(world, 150);
  world.Settle();
  const auto gets_of_a_look = [&world] {
    const int before = world.client.Count("get", "Pod");
    world.SyncAll();
    EXPECT_TRUE(world.Reconcile().ok());
    return world.client.Count("get", "Pod") - before;
  };
  world.clock.Advance(seconds(60));
  EXPECT_EQ(gets_of_a_look(), 64);
  EXPECT_EQ(gets_of_a_look(), 64) << "others";
  EXPECT_EQ(gets_of_a_look(), 22);
  EXPECT_EQ(gets_of_a_look(), 0) << "all have been asked for within a minute";
  for (int i = 0; i < 150; ++i) {
    world.client.Remove(kube::kPodKind, {"default", "j-worker-" + std::to_string(i)});
  }
  world.clock.Advance(seconds(60));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(150)) << "it goes on as fast as names turn out to be free";
}

TEST(OwnershipTest, TakenNamesAreAskedForInParallel) {
  World world(Job("j").Workers(2).Build(), {.parallel_calls = 2});
  TakeNames(world, 2);
  world.Settle();
  std::mutex mutex;
  std::condition_variable changed;
  int under_way = 0;
  bool together = false;
  world.client.SetBefore([&](const HookedClient::Call& call) {
    if (call.verb != "get" || call.kind != "Pod") return absl::OkStatus();
    std::unique_lock lock(mutex);
    if (++under_way == 2) together = true;
    changed.notify_all();
    changed.wait_for(lock, seconds(60), [&] { return together; });
    --under_way;
    return absl::OkStatus();
  });
  world.clock.Advance(seconds(60));
  EXPECT_TRUE(world.Reconcile().ok());
  EXPECT_TRUE(together);
}

TEST(OwnershipTest, AForgedOwnerReferenceMakesNoPodOrServiceTheJobs) {
  World world(Job("j").Workers(1).Build());
  const kube::Object owner = {{"apiVersion", api::kApiVersion},
                              {"kind", api::kKind},
                              {"name", "j"},
                              {"uid", world.Job()->metadata.uid},
                              {"controller", true}};
  const auto forge = [&](const kube::Kind& kind, const char* space, kube::Object reference) {
    world.client.Add(kind, {{"metadata",
                             {{"name", "forged"},
                              {"namespace", space},
                              {"ownerReferences", kube::Object::array({reference})},
                              {"labels",
                               {{api::kLabelJobUid, world.Job()->metadata.uid},
                                {api::kLabelRole, "worker"},
                                {api::kLabelReplicaIndex, "0"},
                                {api::kLabelAttempt, "0"}}}}},
                            {"status", {{"phase", "Failed"}, {"reason", "Error"}}}});
  };
  kube::Object of_another_kind = owner;
  of_another_kind["apiVersion"] = "batch/v1";
  for (const kube::Kind& kind : {kube::kPodKind, kube::kServiceKind}) {
    forge(kind, "attacker", owner);
    forge(kind, "default", of_another_kind);
  }
  world.Settle();
  EXPECT_TRUE(world.client.Get(kube::kPodKind, {"default", "j-worker-0"}).ok());
  EXPECT_TRUE(world.client.Get(kube::kServiceKind, {"default", "j"}).ok());
  EXPECT_EQ(world.Job()->status.state, "Pending");
  EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts());
}

TEST(OwnershipTest, ACreateWhoseAnswerWasLostIsNotAConflict) {
  World world(Job("j").Workers(2).Build());
  bool lose = true;
  world.client.SetAfter([&lose](const HookedClient::Call& call) {
    const bool lost = lose && call.name == "j-worker-0";
    if (lost) lose = false;
    return lost ? absl::UnavailableError("connection reset") : absl::OkStatus();
  });
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_TRUE(world.Reconcile().ok());  // the caches have not moved
  world.clock.Advance(seconds(1));      // creates pause after one that failed
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_THAT(world.EventReasons(), IsEmpty());
}

TEST(OwnershipTest, AClockThatIsSetBackDelaysNoLookAtATakenName) {
  World world(Job("j").Workers(1).Build());
  const kube::Key key{"default", "j-worker-0"};
  world.client.Add(kube::kPodKind, {{"metadata", {{"name", key.name}, {"namespace", "default"}}}});
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "NameConflict");
  world.client.Remove(kube::kPodKind, key);
  world.clock.Step(-std::chrono::minutes(50));
  world.Settle();
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  ASSERT_THAT(world.Pods(), SizeIs(1));
  EXPECT_EQ(kube::ControllerUid(world.Pods().front()), world.Job()->metadata.uid);
}

}  // namespace
}  // namespace lockstep::controller
