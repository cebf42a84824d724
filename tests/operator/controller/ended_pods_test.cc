// A replica's result counts even if its pod, or the operator that saw it, is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::HookedClient;
using ::testing::IsEmpty;
using testing::Job;
using ::testing::SizeIs;
using testing::World;

api::TrainingJob ThreeWorkers() {
  return Job("j").Workers(3).RestartScope(api::RestartScope::kPod).Build();
}

// Lets the job run, and its last worker succeed just now.
void FinishTheLastOfThree(World& world) {
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1", "j-worker-2"}) world.SetPod(name, "Running");
  world.Settle();
  world.SetPod("j-worker-2", "Succeeded");
  world.Settle();
}

TEST(EndedPodsTest, AWorkersSuccessIsWrittenWithinASecond) {
  World world(ThreeWorkers());
  FinishTheLastOfThree(world);
  world.clock.Advance(std::chrono::seconds(1));
  world.Settle();
  EXPECT_THAT(world.Job()->status.completed_indexes, ElementsAre(2));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-2"});
  world.RestartOperator();
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2)) << "it is not made again";
}

TEST(EndedPodsTest, AWorkersSuccessOutlivesItsPodBeforeItIsWritten) {
  World world(ThreeWorkers());
  FinishTheLastOfThree(world);
  EXPECT_THAT(world.Job()->status.completed_indexes, IsEmpty());
  world.client.Remove(kube::kPodKind, {"default", "j-worker-2"});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2)) << "it is not made again";
  EXPECT_THAT(world.Job()->status.completed_indexes, ElementsAre(2)) << "written at once";
}

// In these two tests a sidecar goes on until the node is shut down.
TEST(EndedPodsTest, ASuccessThatIsWrittenOutlivesThePodsEndByItsNodeAndTheOperator) {
  for (const char* reason : {"Terminated", "Evicted"}) {
    World world(ThreeWorkers());
    FinishTheLastOfThree(world);
    world.clock.Advance(seconds(1));
    world.Settle();
    ASSERT_THAT(world.Job()->status.completed_indexes, ElementsAre(2));
    world.client.Modify(kube::kPodKind, {"default", "j-worker-2"}, [reason](kube::Object& pod) {
      pod["status"]["phase"] = "Failed";
      pod["status"]["reason"] = reason;
    });
    world.RestartOperator();
    world.Settle();
    world.clock.Advance(seconds(20));
    world.Settle();
    EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{}) << reason;
    EXPECT_THAT(world.Job()->status.completed_indexes, ElementsAre(2)) << reason;
    EXPECT_EQ(world.Job()->status.state, "Running") << reason;
  }
}

TEST(EndedPodsTest, AWorkersSuccessOutlivesTheEndOfItsPodByItsNode) {
  World world(ThreeWorkers());
  FinishTheLastOfThree(world);
  world.client.Modify(kube::kPodKind, {"default", "j-worker-2"}, [](kube::Object& pod) {
    pod["status"]["phase"] = "Failed";
    pod["status"]["reason"] = "Terminated";
  });
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_THAT(world.Job()->status.completed_indexes, ElementsAre(2));
  EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{});
}

// The second of two workers that run fails, and its pod is removed before that is judged.
void LoseAPodThatHasFailed(World& world) {
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  world.SetPod("j-worker-1", "Failed", 1);
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
}

TEST(EndedPodsTest, AFailureThatIsNotJudgedYetOutlivesItsPod) {
  World world(Job("j").Workers(2).Build());
  LoseAPodThatHasFailed(world);
  EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{}) << "a peer may be the cause";
  world.clock.Advance(seconds(10));
  world.Settle();
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{1, 0, 1}));
  EXPECT_EQ(world.Job()->status.failure->exit_code, 1);
  EXPECT_EQ(world.Job()->status.attempt, 1);
}

TEST(EndedPodsTest, AClockThatIsSetDelaysAndHastensNoJudgementOfAFailureWhosePodIsGone) {
  for (const auto step : {-std::chrono::minutes(50), std::chrono::minutes(50)}) {
    SCOPED_TRACE(step.count());
    World world(Job("j").Workers(2).Build());
    LoseAPodThatHasFailed(world);
    world.clock.Step(step);
    world.clock.Advance(seconds(9));
    world.Settle();
    EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{}) << "a peer may be the cause";
    world.clock.Advance(seconds(1));
    world.Settle();
    EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{1, 0, 1}));
  }
}

// The job grows again at the very moment of the delete, and what follows is seen step by step.
TEST(EndedPodsTest, AWorkerThatIsWantedAgainWhileItEndsIsNotLost) {
  World world(Job("j")
                  .Workers(4)
                  .ParameterServers(1)
                  .Strategy(api::StrategyType::kParameterServer)
                  .RestartScope(api::RestartScope::kGang)
                  .With([](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; })
                  .Build());
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  world.Settle();
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  world.Settle();
  int generation = 1;
  const auto scale = [&world, &generation](int workers) {
    world.client.Modify(kTrainingJobKind, world.key, [&](kube::Object& job) {
      job["spec"]["replicaSpecs"]["Worker"]["replicas"] = workers;
      job["metadata"]["generation"] = ++generation;
    });
  };
  world.client.SetBefore([&scale](const HookedClient::Call& call) {
    if (call.verb == "delete") scale(4);
    return absl::OkStatus();
  });
  scale(3);
  world.Settle();
  const kube::Key name{"default", "j-worker-3"};
  const std::string first = kube::Uid(*world.client.Get(kube::kPodKind, name));
  ASSERT_TRUE(kube::IsBeingDeleted(*world.client.Get(kube::kPodKind, name)));
  world.SetPod("j-worker-3", "Succeeded");
  world.Settle();
  world.client.Remove(kube::kPodKind, name);
  world.Settle();
  EXPECT_NE(kube::Uid(*world.client.Get(kube::kPodKind, name)), first);
  const api::TrainingJobStatus status = world.Job()->status;
  EXPECT_EQ(status.restarts, api::RestartCounts{});
  EXPECT_EQ(status.attempt, 0);
  EXPECT_THAT(status.completed_indexes, IsEmpty());
}

TEST(EndedPodsTest, AChiefsSuccessIsWrittenBeforeItsPodCanGo) {
  World world(Job("j")
                  .Chief()
                  .Workers(1)
                  .RestartScope(api::RestartScope::kPod)
                  .SuccessPolicy(api::SuccessPolicy::kAllWorkers)
                  .Build());
  world.Settle();
  for (const char* name : {"j-chief-0", "j-worker-0"}) world.SetPod(name, "Running");
  world.Settle();
  world.SetPod("j-chief-0", "Succeeded");
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-chief-0"});
  world.RestartOperator();
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1)) << "it is not made again";
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

// The second of two workers finishes after an hour, which the operator is yet to see.
void FinishTheLeadersPeer(World& world) {
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  world.clock.Advance(std::chrono::hours(1));
  world.SetPod("j-worker-1", "Succeeded");
}

TEST(EndedPodsTest, HowLongALeaderOutlivesItsPeersIsCountedFromWhenThisProcessSawThemFinish) {
  World world(Job("j").Workers(2).Training().Build());
  FinishTheLeadersPeer(world);
  world.progress.group.awaited = {"worker-1"};
  const std::optional<Duration> next = world.Settle();
  ASSERT_TRUE(next.has_value());
  EXPECT_LE(*next, std::chrono::seconds(15));
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(std::chrono::seconds(14));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(std::chrono::seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_EQ(world.Job()->status.attempt, 0);
}

// Finished pods are deleted at once by a clean-up, while the leading replica takes its time to end.
TEST(EndedPodsTest, APeerWhosePodIsGoneHasFinishedWhenThisProcessSawItFinish) {
  World world(Job("j").Workers(2).Training().Build());
  FinishTheLeadersPeer(world);
  world.Settle();
  world.clock.Advance(seconds(5));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
  world.clock.Advance(seconds(54));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded") << "the leader does not end";
}

}  // namespace
}  // namespace lockstep::controller
