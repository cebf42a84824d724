// Roles that wait for others, on the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/rfc3339.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/times.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using api::DependencyStatus;
using api::Role;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::HookedClient;
using ::testing::IsEmpty;
using testing::Job;
using testing::JobBuilder;
using ::testing::UnorderedElementsAre;
using testing::World;

JobBuilder ServersFirst(DependencyStatus status = DependencyStatus::kReady) {
  return Job("j")
      .ParameterServers(2)
      .Workers(2)
      .RestartScope(api::RestartScope::kGang)
      .DependsOn(Role::kWorker, Role::kParameterServer, status);
}

std::vector<std::string> PodNames(World& world) {
  std::vector<std::string> names;
  for (const kube::Object& pod : world.Pods()) names.push_back(kube::Name(pod));
  std::ranges::sort(names);
  return names;
}

std::string Said(World& world) {
  return FindCondition(world.Job()->status, kRunning)->message;
}

TEST(StartOrderWorldTest, WorkersFollowTheServersAndTheJobRuns) {
  World world(ServersFirst().Build());
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-ps-1"));
  world.SetPod("j-ps-0", "Running");
  world.clock.Advance(std::chrono::minutes(1));  // counts are written now and then
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-ps-1"));
  EXPECT_EQ(Said(world), "Worker waits until PS is ready (1 of 2)");
  world.SetPod("j-ps-1", "Running");
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-ps-1", "j-worker-0", "j-worker-1"));
  EXPECT_THAT(world.Job()->status.started_roles, ElementsAre(Role::kWorker));
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  EXPECT_THAT(world.EventReasons(), ElementsAre("RoleStarted", "Running"));
}

// Those who lost it have only others to wait for.
TEST(StartOrderWorldTest, ALossExplainsItsPeersRestartsWhileARoleStillWaits) {
  World world(ServersFirst(DependencyStatus::kComplete)
                  .RestartScope(api::RestartScope::kPod)
                  .BackoffLimit(6)
                  .Build());
  world.Settle();
  world.SetPod("j-ps-0", "Running");
  world.SetPod("j-ps-1", "Running");
  world.Settle();
  world.clock.Advance(std::chrono::hours(1));
  world.client.Remove(kube::kPodKind, {"default", "j-ps-0"});
  world.Settle();  // its successor finds no node
  for (int restarts = 1; restarts <= 7; ++restarts) {
    world.clock.Advance(std::chrono::seconds(20));
    world.client.Modify(kube::kPodKind, {"default", "j-ps-1"}, [&](kube::Object& pod) {
      kube::Object& container = pod["status"]["containerStatuses"][0];
      container["restartCount"] = restarts;
      container["lastState"] = {{"terminated",
                                 {{"exitCode", 1},
                                  {"reason", "Error"},
                                  {"finishedAt", FormatRfc3339(WholeSeconds(world.clock.Now()))}}}};
    });
    world.Settle();
    world.clock.Advance(std::chrono::seconds(20));  // long enough for a cause to show
    world.Settle();
  }
  EXPECT_EQ(world.Job()->status.state, "Pending");
}

// Neither a new operator nor a server that is not ready for a while takes the note back.
TEST(StartOrderWorldTest, AnOperatorThatStartsAgainGoesOnWithTheOrder) {
  World world(ServersFirst().RestartScope(api::RestartScope::kPod).Build());
  world.Settle();
  world.RestartOperator();
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-ps-1"));
  world.SetPod("j-ps-0", "Running");
  world.SetPod("j-ps-1", "Running");
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.client.Modify(kube::kPodKind, {"default", "j-ps-0"}, [](kube::Object& pod) {
    pod["status"]["conditions"] = {{{"type", "Ready"}, {"status", "False"}}};
  });
  world.RestartOperator();
  world.Settle();
  EXPECT_THAT(PodNames(world), Contains("j-worker-1"));
  EXPECT_THAT(world.EventReasons(), ElementsAre("RoleStarted"));
}

TEST(StartOrderWorldTest, AWholeRestartBeginsTheOrderAgain) {
  World world(ServersFirst(DependencyStatus::kComplete).Build());
  world.Settle();
  world.SetPod("j-ps-0", "Succeeded");
  world.SetPod("j-ps-1", "Succeeded");
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Failed", 137);
  world.Settle();
  world.clock.Advance(std::chrono::minutes(1));  // the failure is judged
  world.Settle();
  for (const kube::Object& pod : world.Pods()) {
    if (kube::IsBeingDeleted(pod)) {
      world.client.Remove(kube::kPodKind, {"default", kube::Name(pod)});
    }
  }
  world.clock.Advance(std::chrono::minutes(10));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-ps-1"));
  EXPECT_EQ(Said(world), "Worker waits until PS has completed (0 of 2)");
}

// A scheduler would place pods one by one that come before their group counts them, and wait for
// ever for a group that counts pods which do not come.
TEST(StartOrderWorldTest, AGangGrowsBeforeThePodsOfARoleThatHasWaited) {
  World world(ServersFirst().Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  const auto min_member = [&] { return world.client.Objects(kind)[0].at("spec").at("minMember"); };
  world.Settle();
  EXPECT_EQ(min_member(), 2);
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-ps-1"));
  world.SetPod("j-ps-0", "Running");
  world.SetPod("j-ps-1", "Running");
  bool grew_first = false;
  for (int i = 0; i < 10 && PodNames(world).size() == 2; ++i) {
    world.SyncAll();
    ASSERT_TRUE(world.Reconcile().ok());
    grew_first |= min_member() == 4 && PodNames(world).size() == 2;
  }
  EXPECT_TRUE(grew_first);
  world.Settle();
  EXPECT_EQ(min_member(), 4);
  EXPECT_EQ(PodNames(world).size(), 4U);
}

void Remove(World& world, const std::string& pod) {
  world.client.Remove(kube::kPodKind, {"default", pod});
}

// Up to the roles that wait for an end.
void StartAll(World& world) {
  for (int look = 0; look < 3; ++look) {
    world.Settle();
    for (const std::string& name : PodNames(world)) world.SetPod(name, "Running");
  }
  world.Settle();
}

// Its peers, which work while the chief waits for their end, cannot take in another one.
TEST(StartOrderWorldTest, AGangMemberThatVanishesWhileARoleWaitsRestartsTheGang) {
  for (const bool is_new_operator : {false, true}) {
    World world(Job("j")
                    .Chief()
                    .Workers(2)
                    .RestartScope(api::RestartScope::kGang)
                    .DependsOn(Role::kChief, Role::kWorker, DependencyStatus::kComplete)
                    .Build());
    world.Settle();
    world.SetPod("j-worker-0", "Running");
    world.Settle();
    Remove(world, "j-worker-0");
    world.Settle();
    EXPECT_EQ(world.Job()->status.attempt, 0) << "they have not been up yet";
    StartAll(world);
    EXPECT_THAT(PodNames(world), ElementsAre("j-worker-0", "j-worker-1"));
    EXPECT_THAT(world.Job()->status.running_roles, ElementsAre(Role::kWorker));
    EXPECT_EQ(Said(world), "Chief waits until Worker has completed (0 of 2)");
    Remove(world, "j-worker-1");
    if (is_new_operator) world.RestartOperator();
    world.Settle();
    EXPECT_EQ(world.Job()->status.attempt, 1);
    EXPECT_EQ(world.Job()->status.restarts.disruption, 1);
    EXPECT_THAT(world.Job()->status.running_roles, IsEmpty());
  }
}

// A finished pod goes when its node is drained.
TEST(HelperWorldTest, OneThatHasFinishedLosesItsPodAndNothingStartsAgain) {
  for (const auto scope : {api::RestartScope::kGang, api::RestartScope::kPod}) {
    for (const bool has_order : {false, true}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(scope) << " order " << has_order);
      JobBuilder job = Job("j").ParameterServers(2).Workers(2).RestartScope(scope);
      if (has_order) job.DependsOn(Role::kWorker, Role::kParameterServer, DependencyStatus::kReady);
      World world(job.Build());
      StartAll(world);
      ASSERT_EQ(world.Job()->status.state, "Running");
      world.SetPod("j-ps-1", "Succeeded");
      world.Settle();
      EXPECT_THAT(world.Job()->status.completed_helpers, ElementsAre(1));
      Remove(world, "j-ps-1");
      world.clock.Advance(std::chrono::minutes(1));
      world.Settle();
      world.RestartOperator();
      world.Settle();
      EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-worker-0", "j-worker-1"));
      EXPECT_EQ(world.Job()->status.attempt, 0);
      EXPECT_EQ(world.Job()->status.restarts.disruption, 0);
      EXPECT_EQ(world.Job()->status.replica_statuses.at(Role::kParameterServer).succeeded, 1);
      EXPECT_EQ(world.Job()->status.ready_replicas, "4/4");
      // The other one has not finished.
      Remove(world, "j-ps-0");
      world.Settle();
      const bool is_replaced = PodNames(world).front() == "j-ps-0";
      EXPECT_TRUE(is_replaced || world.Job()->status.attempt == 1);
    }
  }
}

TEST(HelperWorldTest, OneOfSeveralThatHasFinishedIsNotStartedAgainWhileTheOtherIsAwaited) {
  World world(ServersFirst(DependencyStatus::kComplete).Build());
  StartAll(world);
  world.SetPod("j-ps-0", "Succeeded");
  world.Settle();
  Remove(world, "j-ps-0");
  world.Settle();
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-1"));
  EXPECT_EQ(Said(world), "Worker waits until PS has completed (1 of 2)");
  world.SetPod("j-ps-1", "Succeeded");
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-1", "j-worker-0", "j-worker-1"));
}

// The server has not taken the status that says so.
TEST(HelperWorldTest, OneThatWasSeenToFinishIsNotStartedAgain) {
  World world(ServersFirst(DependencyStatus::kComplete).Build());
  StartAll(world);
  world.SetPod("j-ps-0", "Succeeded");
  world.SyncAll();
  world.client.SetBefore([](const HookedClient::Call& call) {
    return call.verb == "update-status" ? absl::AbortedError("conflict") : absl::OkStatus();
  });
  EXPECT_FALSE(world.Reconcile().ok());
  world.client.SetBefore({});
  Remove(world, "j-ps-0");
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-1"));
  EXPECT_THAT(world.Job()->status.completed_helpers, ElementsAre(0));
}

// Its program may have ended because it was told to.
TEST(HelperWorldTest, OneThatEndsWhileItsPodIsDeletedStartsAgain) {
  for (const int helpers : {1, 2}) {
    World world(Job("j")
                    .ParameterServers(helpers)
                    .Workers(2)
                    .RestartScope(api::RestartScope::kPod)
                    .Build());
    world.client.SetScheduler([](const kube::Object&) { return "node"; });
    StartAll(world);
    world.SetPod("j-ps-0", "Succeeded");
    ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", "j-ps-0"}, {}).ok());
    for (int look = 0; look < 2; ++look) {
      world.Settle();
      world.clock.Advance(std::chrono::minutes(1));  // counts are written now and then
    }
    EXPECT_THAT(world.Job()->status.completed_helpers, IsEmpty());
    Remove(world, "j-ps-0");
    world.Settle();
    EXPECT_THAT(PodNames(world), Contains("j-ps-0"));
  }
}

// A role that waits for its end waits on: it would work on what is half done.
TEST(HelperWorldTest, OneThatEndsWhileItsPodIsDeletedIsStillAwaited) {
  World world(
      ServersFirst(DependencyStatus::kComplete).RestartScope(api::RestartScope::kPod).Build());
  world.client.SetScheduler([](const kube::Object&) { return "node"; });
  StartAll(world);
  world.SetPod("j-ps-1", "Succeeded");
  world.Settle();
  world.SetPod("j-ps-0", "Succeeded");
  ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", "j-ps-0"}, {}).ok());
  world.Settle();
  EXPECT_THAT(world.Job()->status.started_roles, IsEmpty());
  Remove(world, "j-ps-0");
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-ps-1"));
  world.SetPod("j-ps-0", "Succeeded");
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-ps-1", "j-worker-0", "j-worker-1"));
}

// It has left how many have finished.
TEST(HelperWorldTest, AnOperatorThatNotedNoneIsTakenAtItsCount) {
  World world(ServersFirst().Build());
  StartAll(world);
  world.SetPod("j-ps-0", "Succeeded");
  world.SetPod("j-ps-1", "Succeeded");
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["status"].erase("completedHelpers");
    job["status"]["replicaStatuses"]["PS"]["succeeded"] = 2;
  });
  Remove(world, "j-ps-0");
  Remove(world, "j-ps-1");
  world.RestartOperator();
  world.Settle();
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-worker-0", "j-worker-1"));
  EXPECT_EQ(world.Job()->status.attempt, 0);
}

TEST(HelperWorldTest, AWholeRestartStartsThemAgain) {
  World world(ServersFirst().Build());
  StartAll(world);
  world.SetPod("j-ps-0", "Succeeded");
  world.SetPod("j-ps-1", "Succeeded");
  world.Settle();
  Remove(world, "j-worker-1");
  world.Settle();
  EXPECT_THAT(world.Job()->status.completed_helpers, IsEmpty());
  for (const kube::Object& pod : world.Pods()) Remove(world, kube::Name(pod));
  world.clock.Advance(std::chrono::minutes(10));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-ps-1"));
}

// It has the parameters, and its workers cannot go on without it.
TEST(HelperWorldTest, AParameterServerIsNone) {
  World world(Job("j")
                  .ParameterServers(1)
                  .Workers(2)
                  .Strategy(api::StrategyType::kParameterServer)
                  .RestartScope(api::RestartScope::kPod)
                  .Build());
  StartAll(world);
  world.SetPod("j-ps-0", "Succeeded");
  world.Settle();
  Remove(world, "j-ps-0");
  world.Settle();
  EXPECT_THAT(PodNames(world), Contains("j-ps-0"));
  EXPECT_THAT(world.Job()->status.completed_helpers, IsEmpty());
}

TEST(StartOrderWorldTest, ASuspendedJobStartsInTheSameOrderOnceItIsResumed) {
  World world(ServersFirst().Build());
  world.Settle();
  world.SetPod("j-ps-0", "Running");
  world.SetPod("j-ps-1", "Running");
  world.Settle();
  world.SetSuspend(true);
  world.Settle();
  for (const kube::Object& pod : world.Pods()) {
    world.client.Remove(kube::kPodKind, {"default", kube::Name(pod)});
  }
  world.Settle();
  EXPECT_THAT(world.Job()->status.started_roles, IsEmpty());
  world.SetSuspend(false);
  world.Settle();
  EXPECT_THAT(PodNames(world), ElementsAre("j-ps-0", "j-ps-1"));
}

}  // namespace
}  // namespace lockstep::controller
