#include "operator/controller/memory/seen_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/world.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::HookedClient;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::Seen;
using ::testing::SizeIs;
using testing::World;

testing::JobBuilder Elastic(int workers) {
  return Job("j").Workers(workers).ElasticTorch(1, 4);
}

// Runs with workers 0 and 1 of three.
Seen RunsWithTwoOfThree() {
  Seen seen(Elastic(3));
  seen.Service().Worker(0, kReady).Worker(1, kReady).Write();
  EXPECT_TRUE(IsTrue(seen.Build().job.status, kRunning));
  return seen;
}

TEST(SeenWorkersTest, AWorkerHasGoneOnlyIfItHasBeenThere) {
  SeenWorkers workers;
  Seen seen = RunsWithTwoOfThree();
  EXPECT_THAT(workers.UpdateGone(seen.Build()), IsEmpty());
  seen.NoPods().Worker(0, kReady);
  EXPECT_THAT(workers.UpdateGone(seen.Build()), ElementsAre(1)) << "and worker 2 never was";
  EXPECT_THAT(workers.UpdateGone(seen.Build()), ElementsAre(1))
      << "until something is done about it";
}

TEST(SeenWorkersTest, NobodyMissesAWorkerThatHasNotStarted) {
  SeenWorkers workers;
  Seen seen = RunsWithTwoOfThree();
  seen.Worker(2, testing::kPending);
  workers.UpdateGone(seen.Build());
  seen.NoPods().Worker(0, kReady).Worker(1, kReady);
  EXPECT_THAT(workers.UpdateGone(seen.Build()), IsEmpty());
}

TEST(SeenWorkersTest, TheNextAttemptStartsWithNobody) {
  SeenWorkers workers;
  Seen seen = RunsWithTwoOfThree();
  workers.UpdateGone(seen.Build());
  seen.NoPods().With([](Observed& observed) { ++observed.job.status.attempt; });
  EXPECT_THAT(workers.UpdateGone(seen.Build()), IsEmpty());
}

TEST(SeenWorkersTest, BeforeTheJobRunsNobodyIsMissed) {
  SeenWorkers workers;
  Seen seen(Elastic(3));
  seen.Service().Worker(1, kReady).Write();
  ASSERT_FALSE(IsTrue(seen.Build().job.status, kRunning));
  workers.UpdateGone(seen.Build());
  seen.NoPods();
  EXPECT_THAT(workers.UpdateGone(seen.Build()), IsEmpty());
}

TEST(SeenWorkersTest, AWorkerThatHasFinishedIsNotMissed) {
  SeenWorkers workers;
  Seen seen = RunsWithTwoOfThree();
  seen.NoPods().Worker(0, kReady).Worker(1, testing::Exited(0)).Write();
  workers.UpdateGone(seen.Build());
  seen.NoPods().Worker(0, kReady);
  EXPECT_THAT(workers.UpdateGone(seen.Build()), IsEmpty());
}

TEST(SeenWorkersTest, ARaisedMinimumMissesNobodyWhoNeverWas) {
  Seen seen = RunsWithTwoOfThree();
  seen.With([](Observed& observed) { observed.job.spec.elastic->min_replicas = 3; });
  EXPECT_EQ(seen.Plan().status.attempt, 0);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(CreatePod{Role::kWorker, 2, 0}));
}

TEST(SeenWorkersTest, AWorkerThatWasScaledAwayIsForgotten) {
  SeenWorkers workers;
  Seen seen = RunsWithTwoOfThree();
  workers.UpdateGone(seen.Build());
  const auto scale = [](int count) {
    return [count](Observed& observed) {
      observed.job.spec.replica_specs[Role::kWorker].replicas = count;
    };
  };
  seen.NoPods().Worker(0, kReady).With(scale(1));
  EXPECT_THAT(workers.UpdateGone(seen.Build()), IsEmpty());
  seen.With(scale(3));
  EXPECT_THAT(workers.UpdateGone(seen.Build()), IsEmpty());
}

TEST(SeenWorkersTest, AWorkerThatIsWantedAgainWhileItEndsIsNotMissed) {
  SeenWorkers workers;
  Seen seen = RunsWithTwoOfThree();
  seen.With([](Observed& observed) { observed.job.status.counted_pods = {"j-worker-1-uid"}; });
  workers.UpdateGone(seen.Build());
  seen.NoPods().Worker(0, kReady);
  EXPECT_THAT(workers.UpdateGone(seen.Build()), IsEmpty());
}

// A namespace whose quota takes `most` pods.
void SetPodQuota(World& world, std::size_t most) {
  world.client.SetBefore([&world, most](const HookedClient::Call& call) {
    const bool full = world.client.Objects(kube::kPodKind).size() >= most;
    return call.verb == "create" && call.kind == "Pod" && full
               ? absl::PermissionDeniedError("create pods: exceeded quota: compute")
               : absl::OkStatus();
  });
}

// Not World::Settle: it expects that no reconcile fails, and one whose creates are refused does.
void Work(World& world) {
  for (int i = 0; i < 40; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(std::chrono::seconds(1));
  }
}

void RunReady(World& world) {
  Work(world);
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  Work(world);
}

TEST(SeenWorkersTest, AnElasticGangThatGetsFewerPodsThanItAskedForRuns) {
  World world(Elastic(4).Build());
  SetPodQuota(world, 2);
  for (int i = 0; i < 3; ++i) RunReady(world);
  EXPECT_THAT(world.Pods(), SizeIs(2));
  const api::TrainingJobStatus status = world.Job()->status;
  EXPECT_EQ(status.state, "Running");
  EXPECT_EQ(status.attempt, 0);
  EXPECT_EQ(status.restarts, api::RestartCounts{});
  EXPECT_EQ(FindCondition(status, kRunning)->reason, "CreateFailed");
  EXPECT_THAT(FindCondition(status, kRunning)->message, ::testing::HasSubstr("exceeded quota"));
  world.client.SetBefore({});  // the quota grows
  RunReady(world);
  EXPECT_THAT(world.Pods(), SizeIs(4));
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "AllReplicasReady");
}

TEST(SeenWorkersTest, AnElasticGangRunsWithoutAPodWhoseNameIsTaken) {
  World world(Elastic(2).Build());
  world.client.Add(kube::kPodKind,
                   {{"metadata", {{"namespace", "default"}, {"name", "j-worker-1"}}}});
  Work(world);
  world.SetPod("j-worker-0", "Running");
  Work(world);
  EXPECT_EQ(world.Job()->status.attempt, 0);
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "NameConflict");
}

TEST(SeenWorkersTest, AGangThatLosesAWorkerThatHadNotStartedGoesOn) {
  for (const bool restarts : {false, true}) {
    World world(Elastic(3).Build());
    Work(world);
    for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
    Work(world);
    ASSERT_EQ(world.Job()->status.state, "Running");
    ASSERT_EQ(world.Job()->status.replica_statuses.at(Role::kWorker).active, 3);
    world.client.Remove(kube::kPodKind, {"default", "j-worker-2"});  // Pending: gone at once
    if (restarts) world.RestartOperator();
    Work(world);
    Work(world);
    EXPECT_EQ(world.Job()->status.attempt, 0) << restarts;
    EXPECT_THAT(world.Pods(), SizeIs(3)) << restarts;
  }
}

// Whether or not the operator has been restarted meanwhile.
TEST(SeenWorkersTest, AGangThatLosesAWorkerThatItHadStartsAgain) {
  for (const bool restarts : {false, true}) {
    World world(Elastic(4).Build());
    SetPodQuota(world, 3);
    RunReady(world);
    ASSERT_EQ(world.Job()->status.attempt, 0);
    ASSERT_EQ(world.Job()->status.replica_statuses.at(Role::kWorker).active, 3);
    world.client.Remove(kube::kPodKind, {"default", "j-worker-2"});  // gone without a trace
    if (restarts) world.RestartOperator();
    RunReady(world);
    const api::TrainingJobStatus status = world.Job()->status;
    EXPECT_EQ(status.attempt, 1) << restarts;
    EXPECT_EQ(status.restarts.disruption, 1) << restarts;
    EXPECT_EQ(status.failure->index, 2) << restarts;
    EXPECT_THAT(world.EventReasons(), Contains("Restarting"));
  }
}

}  // namespace
}  // namespace lockstep::controller
