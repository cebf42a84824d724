// Deletes that the server refuses, or takes long for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "operator/kube/server_errors.h"
#include "tests/operator/controller/world.h"

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

TEST(RefusedDeletesTest, AnEndedJobsPodsAreDeletedThoughTheJobCannotBe) {
  for (const auto& answer :
       {absl::FailedPreconditionError("denied"), absl::UnavailableError("webhook is down")}) {
    World world(Job("j").Workers(2).ActiveDeadlineSeconds(60).TtlSecondsAfterFinished(0).Build());
    world.Settle();
    for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
    world.Settle();
    world.client.SetBefore([&answer](const HookedClient::Call& call) {
      return call.verb == "delete" && call.kind == "TrainingJob" ? answer : absl::OkStatus();
    });
    world.clock.Advance(seconds(61));
    for (int i = 0; i < 6; ++i) {
      world.SyncAll();
      (void)world.Reconcile();
      world.clock.Advance(seconds(10));
    }
    EXPECT_EQ(world.Job()->status.state, "Failed");
    EXPECT_THAT(world.Pods(), IsEmpty()) << answer;
    world.client.SetBefore({});
    world.SyncAll();
    (void)world.Reconcile();
    EXPECT_FALSE(world.Job().has_value());
  }
}

class OverloadedServerTest : public ::testing::TestWithParam<absl::StatusCode> {};

TEST_P(OverloadedServerTest, NoFurtherDeleteIsBegun) {
  World world(Job("j").Workers(20).Build(), {.parallel_calls = 1});
  world.Settle();
  world.SetSuspend(true);
  world.SyncAll();
  int deletes = 0;
  bool answers = false;
  world.client.SetBefore([&](const HookedClient::Call& call) {
    if (call.verb != "delete" || answers) return absl::OkStatus();
    ++deletes;
    world.clock.Advance(std::chrono::seconds(30));
    return kube::MarkOverloaded(absl::Status(GetParam(), "no time"));
  });
  bool ok = true;
  for (int i = 0; i < 5 && deletes == 0; ++i) {  // a status comes first
    ok = world.Reconcile().ok();
    world.SyncAll();
  }
  EXPECT_FALSE(ok);
  EXPECT_EQ(deletes, 1);
  answers = true;
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_TRUE(world.Pods().empty());
}

INSTANTIATE_TEST_SUITE_P(Codes, OverloadedServerTest,
                         ::testing::Values(absl::StatusCode::kDeadlineExceeded,
                                           absl::StatusCode::kUnavailable,
                                           absl::StatusCode::kResourceExhausted));

// As webhooks that guard against disruption do. Each call may have waited for its turn.
TEST(RefusedDeletesTest, DeletesThatAreRefusedKeepNoOthersFromBeingMade) {
  World world(Job("j").Workers(20).Build(), {.parallel_calls = 1});
  world.Settle();
  world.SetSuspend(true);
  world.client.SetBefore([&world](const HookedClient::Call& call) {
    if (call.verb == "delete") world.clock.Advance(seconds(2));
    const bool is_guarded = call.verb == "delete" && call.name.starts_with("j-worker-1");
    return is_guarded ? absl::ResourceExhaustedError("a webhook says no") : absl::OkStatus();
  });
  world.SyncAll();
  for (int i = 0; i < 5; ++i) {
    world.Reconcile().IgnoreError();
    world.SyncAll();
  }
  EXPECT_EQ(world.Pods().size(), 11u) << "1 and 10 to 19";
}

TEST(RefusedDeletesTest, DeletesThatTakeTheServerLongComeAfterThoseThatHaveNotBeenTried) {
  World world(Job("j").Workers(20).Build(), {.parallel_calls = 1});
  world.Settle();
  world.SetSuspend(true);
  world.client.SetBefore([](const HookedClient::Call& call) {
    const bool is_guarded = call.verb == "delete" && call.name.starts_with("j-worker-1");
    return is_guarded ? kube::MarkOverloaded(absl::ResourceExhaustedError("a webhook says no"))
                      : absl::OkStatus();
  });
  for (int i = 0; i < 15; ++i) {
    world.SyncAll();
    world.Reconcile().IgnoreError();
    world.clock.Advance(seconds(60));  // all are due again
  }
  EXPECT_THAT(world.Pods(), SizeIs(11)) << "1 and 10 to 19";
}

// Fails deletes of pods whose names begin so, as a webhook that guards them.
void GuardPods(World& world, const std::string& prefix) {
  world.client.SetBefore([prefix](const HookedClient::Call& call) {
    const bool is_guarded = call.verb == "delete" && call.name.starts_with(prefix);
    return is_guarded ? absl::PermissionDeniedError("delete pods " + call.name + ": denied")
                      : absl::OkStatus();
  });
}

TEST(RefusedDeletesTest, ADeadPodThatCannotBeDeletedIsToldAndTheJobsStatusGoesOn) {
  World world(Job("j").Workers(2).Training().Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.progress.answer.emplace().step = 90;
  world.Settle();
  GuardPods(world, "j-worker-1");
  world.SetPod("j-worker-1", "Failed", 137);
  world.SyncAll();
  EXPECT_TRUE(world.Reconcile().ok()) << "the failure is charged";
  world.SyncAll();
  EXPECT_TRUE(absl::IsPermissionDenied(world.Reconcile().status()));
  const api::TrainingJobStatus status = world.Job()->status;
  EXPECT_TRUE(IsTrue(status, kRunning));
  EXPECT_EQ(FindCondition(status, kRunning)->reason, "DeleteFailed");
  EXPECT_EQ(FindCondition(status, kRunning)->message, "delete pods j-worker-1: denied");
  EXPECT_EQ(status.ready_replicas, "1/2");
  world.progress.answer->step = 100;
  world.clock.Advance(seconds(11));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok()) << "it is tried again";
  EXPECT_EQ(world.Job()->status.progress->step, 100);
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{1, 0, 0})) << "charged once";
  EXPECT_THAT(world.EventReasons(), ElementsAre("DeleteFailed", "Restarting", "Running"));
  GuardPods(world, "none");
  world.clock.Advance(seconds(11));
  world.Settle();
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  world.clock.Advance(seconds(10));  // a reason may wait that long
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "AllReplicasReady");
}

TEST(RefusedDeletesTest, ADeleteThatIsRefusedIsNotRepeatedWithEveryChangeOfAPod) {
  World world(Job("j").Workers(20).Build());
  world.Settle();
  GuardPods(world, "j-worker-1");  // and 10 to 19
  world.SetSuspend(true);
  for (int i = 0; i < 20; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
  }
  EXPECT_THAT(world.Pods(), SizeIs(11));
  EXPECT_EQ(world.client.Count("delete", "Pod"), 20) << "each once";
  EXPECT_EQ(FindCondition(world.Job()->status, kSuspended)->reason, "DeleteFailed");
  world.clock.Advance(milliseconds(100));
  EXPECT_FALSE(world.Reconcile().ok());
  const auto next = world.Reconcile();
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(*next, milliseconds(200));
  EXPECT_EQ(world.client.Count("delete", "Pod"), 31);
  GuardPods(world, "none");
  world.clock.Advance(milliseconds(200));
  world.Settle();
  EXPECT_THAT(world.Pods(), IsEmpty());
  world.clock.Advance(seconds(10));  // a reason may wait that long
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kSuspended)->reason, "Suspended");
  EXPECT_THAT(world.EventReasons(), ElementsAre("DeleteFailed", "Suspended"));
}

TEST(RefusedDeletesTest, OfAnEndedJobWhosePodsCannotBeDeletedAnEventTells) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  GuardPods(world, "j-worker-1");
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  for (int i = 0; i < 5; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(seconds(60));
  }
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_EQ(world.client.Count("delete", "Pod"), 4);
  EXPECT_THAT(world.EventReasons(), ElementsAre("DeleteFailed", "Running", "Succeeded"));
}

}  // namespace
}  // namespace lockstep::controller
