// Nodes that are silent, drained or gone, and the pods on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/v1/names.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Job;
using ::testing::SizeIs;
using testing::World;

TEST(LostNodesTest, AMemberOnASilentNodeThatItsGroupMissesIsReplacedElsewhere) {
  World world(Job("j").Workers(2).Training().Build(), {.parallel_calls = 1, .watch_nodes = true});
  std::string node = "b";  // of worker 1
  world.client.SetScheduler(
      [&node](const kube::Object& pod) { return kube::Name(pod) == "j-worker-0" ? "a" : node; });
  for (const char* ready : {"a", "b", "c"}) world.SetNode(ready, "True");
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
  const std::string uid = kube::Uid(*world.client.Get(kube::kPodKind, {"default", "j-worker-1"}));
  world.progress.group.missing = {"worker-1"};
  world.Settle();
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 0) << "its node is well";
  world.SetNode("b", "Unknown");
  node = "c";
  world.nodes_are_current = false;
  world.Settle();
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 0) << "it may be well by now";
  world.nodes_are_current = true;
  world.Settle();
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 1);
  EXPECT_NE(kube::Uid(*world.client.Get(kube::kPodKind, {"default", "j-worker-1"})), uid);
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{0, 1, 1}));
  EXPECT_EQ(world.Job()->status.attempt, 0) << "the others keep what they have";
}

// Two workers run; the node of worker 1 has just become silent.
std::unique_ptr<World> WorkerOneOnASilentNode() {
  auto world =
      std::make_unique<World>(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build(),
                              Settings{.parallel_calls = 1, .watch_nodes = true});
  world->client.SetScheduler(
      [](const kube::Object& pod) { return kube::Name(pod) == "j-worker-0" ? "a" : "b"; });
  for (const char* node : {"a", "b", "c"}) world->SetNode(node, "True");
  world->Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world->SetPod(pod, "Running");
  world->SetNode("b", "Unknown");
  return world;
}

// No change of the node brings the job back when the watch goes on.
TEST(LostNodesTest, ANodeThatIsSilentAfterAStalledWatchLosesItsPodsToo) {
  const auto owned = WorkerOneOnASilentNode();
  World& world = *owned;
  world.Settle();
  world.nodes_are_current = false;
  world.clock.Advance(seconds(100));
  const std::optional<Duration> look = world.Settle();
  EXPECT_EQ(look, seconds(10));
  world.nodes_are_current = true;
  world.clock.Advance(seconds(10));
  EXPECT_EQ(world.Settle(), seconds(120));
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 0);
  world.clock.Advance(seconds(120));
  world.Settle();
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 1);
}

// Two workers; the group misses worker 1, which runs on node `b`.
std::unique_ptr<World> MissingWorkerOne() {
  auto world = std::make_unique<World>(
      Job("j").Workers(2).Training().Build(),
      Settings{.parallel_calls = 1, .status_interval = std::chrono::hours(1), .watch_nodes = true});
  world->client.SetScheduler(
      [](const kube::Object& pod) { return kube::Name(pod) == "j-worker-0" ? "a" : "b"; });
  world->SetNode("a", "True");
  world->progress.group.missing = {"worker-1"};
  world->Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world->SetPod(pod, "Running");
  world->Settle();
  return world;
}

// Lets the time pass; after the first look, the operator looks at the job when it has asked for it.
// Returns how many pods it has deleted by force so far.
int DeletedByForceAfter(World& world, Duration time) {
  std::optional<Duration> next = world.Settle();
  while (next && *next <= time) {
    world.clock.Advance(*next);
    time -= *next;
    next = world.Settle();
  }
  world.clock.Advance(time);
  return world.client.Count("force-delete", "Pod");
}

// The watch of nodes is behind that of pods.
TEST(LostNodesTest, ANodeThatIsNotKnownYetIsNotADeletedOne) {
  const auto world = MissingWorkerOne();
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(89)), 0);
  world->SetNode("b", "True");
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(600)), 0);
  world->client.Remove(kNodeKind, {"", "b"});
  world->Settle();
  EXPECT_EQ(world->client.Count("force-delete", "Pod"), 1) << "it was known";
}

TEST(LostNodesTest, ANodeThatWasDeletedBeforeTheOperatorsStartIsSilentOnceThatIsCertain) {
  const auto world = MissingWorkerOne();
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(50)), 0);
  world->nodes_are_current = false;
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(200)), 0);
  world->nodes_are_current = true;
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(80)), 0);
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(20)), 1);

  World other(Job("j").Workers(1).Build(), {.parallel_calls = 1, .watch_nodes = true});
  other.client.SetScheduler([](const kube::Object& /*pod*/) { return "gone"; });
  EXPECT_EQ(DeletedByForceAfter(other, seconds(119)), 0);
  EXPECT_EQ(DeletedByForceAfter(other, seconds(1)), 1) << "its silence began when it was missed";
}

// The kubelets, but not the operator, have lost the API server. Kubernetes evicts nobody then.
TEST(LostNodesTest, NoPodIsReplacedWhileMostNodesAreNotReady) {
  World world(Job("j").Workers(4).Training().Build(), {.parallel_calls = 1, .watch_nodes = true});
  world.client.SetScheduler([](const kube::Object& pod) {
    return std::string("node-") + kube::Name(pod).back();  // j-worker-3: node-3
  });
  const auto set_nodes = [&world](std::vector<int> indexes, const char* ready) {
    for (const int index : indexes) world.SetNode("node-" + std::to_string(index), ready);
    world.Settle();
  };
  set_nodes({0, 1, 2, 3}, "True");
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  world.Settle();
  const auto deleted_after = [&world](seconds time) {
    for (seconds passed{0}; passed < time; passed += seconds(1)) {
      world.clock.Advance(seconds(1));
      world.Settle();
    }
    return world.client.Count("delete", "Pod") + world.client.Count("force-delete", "Pod");
  };
  set_nodes({1}, "Unknown");
  EXPECT_EQ(deleted_after(seconds(100)), 0);
  set_nodes({0, 2, 3}, "Unknown");
  EXPECT_EQ(deleted_after(seconds(180)), 0);
  set_nodes({0}, "True");
  EXPECT_EQ(deleted_after(seconds(180)), 0) << "3 of 4 are not ready still";
  EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts());
  set_nodes({2, 3}, "True");
  EXPECT_EQ(deleted_after(seconds(119)), 0) << "node-1 is silent since the outage has ended";
  EXPECT_EQ(deleted_after(seconds(1)), 1);
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{0, 1, 1}));
}

// The survivor of a power cut gives up waiting for its peers, whose pods nobody replaces yet.
TEST(LostNodesTest, NobodyIsChargedForGivingUpPeersWhoseNodesAreInAWideOutage) {
  for (const bool bundled : {true, false}) {
    World world(bundled ? Job("j").Workers(4).Training().Build() : Job("j").Workers(4).Build(),
                {.parallel_calls = 1, .watch_nodes = true});
    world.client.SetScheduler(
        [](const kube::Object& pod) { return std::string("node-") + kube::Name(pod).back(); });
    for (const char* node : {"node-0", "node-1", "node-2", "node-3"}) world.SetNode(node, "True");
    world.Settle();
    for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
    world.Settle();
    for (const char* node : {"node-1", "node-2", "node-3"}) world.SetNode(node, "Unknown");
    world.Settle();
    world.SetPod("j-worker-0", "Failed", bundled ? api::kExitRendezvousDeadline : 1);
    world.Settle();
    world.clock.Advance(seconds(10));
    world.Settle();
    EXPECT_EQ(world.Job()->status.restarts.application, 0) << bundled;
    EXPECT_NE(world.Job()->status.state, "Failed") << bundled;
  }
}

TEST(LostNodesTest, ADrainedNodesPodsAreReplacedAtOnceThoughSeenOneByOne) {
  World world(Job("j").Workers(8).RestartScope(api::RestartScope::kPod).Build());
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  world.Settle();
  for (int i = 0; i < 8; ++i) world.SetPod("j-worker-" + std::to_string(i), "Running");
  world.Settle();
  for (int i = 1; i < 8; ++i) {
    const kube::Key pod{"default", "j-worker-" + std::to_string(i)};
    ASSERT_TRUE(world.client.Delete(kube::kPodKind, pod, {}).ok());
    world.clock.Advance(milliseconds(300));
    world.Settle();
  }
  for (int i = 1; i < 8; ++i) {
    world.client.Remove(kube::kPodKind, {"default", "j-worker-" + std::to_string(i)});
  }
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(8));
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{0, 7, 1}));
}

TEST(LostNodesTest, APodOnALostNodeIsReplacedByForce) {
  World world(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build());
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", "j-worker-1"}, {}).ok());
  world.Settle();
  EXPECT_EQ(world.Job()->status.restarts.disruption, 1);
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 0) << "its grace period is respected";
  world.clock.Advance(std::chrono::minutes(2));
  world.Settle();
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 1);
  EXPECT_EQ(world.client.Count("create", "Pod"), 3);
  EXPECT_EQ(world.Job()->status.restarts.disruption, 1);
}

TEST(LostNodesTest, AClockThatIsSetForwardLosesNoPodsOnASilentNode) {
  const auto owned = WorkerOneOnASilentNode();
  World& world = *owned;
  EXPECT_EQ(world.Settle(), seconds(120));
  world.clock.Step(std::chrono::hours(1));
  EXPECT_EQ(world.Settle(), seconds(120));
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 0);
  world.clock.Advance(seconds(120));
  world.Settle();
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 1);
}

}  // namespace
}  // namespace lockstep::controller
