#include "operator/controller/memory/unstarted_pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/world.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::milliseconds;
using ::testing::Contains;
using testing::HookedClient;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::Seen;
using testing::World;

constexpr SteadyTime kNow{};
constexpr kube::BackoffPolicy kBackoff{.initial = milliseconds(100)};

Plan PlanOfWorkers(std::initializer_list<int> workers) {
  Plan plan;
  for (const int worker : workers) plan.actions.emplace_back(CreatePod{Role::kWorker, worker, 0});
  return plan;
}

// As after so many creates of worker 1, the last one now.
UnstartedPods Created(int times) {
  UnstartedPods pods;
  for (int i = 0; i < times; ++i) pods.RecordCreated({Role::kWorker, 1}, kNow);
  return pods;
}

std::optional<Duration> Wait(const UnstartedPods& pods) {
  Plan plan = PlanOfWorkers({1});
  pods.Bound(plan, kNow, kBackoff);
  EXPECT_EQ(plan.actions.empty(), plan.requeue_after.has_value());
  return plan.requeue_after;
}

TEST(UnstartedPodsTest, TheFirstReplacementComesAtOnceAndLaterOnesAtGrowingIntervals) {
  EXPECT_EQ(Wait(Created(1)), std::nullopt);
  EXPECT_EQ(Wait(Created(2)), milliseconds(100));
  EXPECT_EQ(Wait(Created(3)), milliseconds(200));
  EXPECT_EQ(Wait(Created(1'000)), std::chrono::seconds(30));
}

TEST(UnstartedPodsTest, OthersNeedNotWait) {
  Plan plan = PlanOfWorkers({0, 1, 2});
  Created(5).Bound(plan, kNow, kBackoff);
  EXPECT_EQ(plan.actions, PlanOfWorkers({0, 2}).actions);
}

TEST(UnstartedPodsTest, APodThatStartsAndTheNextAttemptAndASmallerJobEndTheSeries) {
  Seen without(Job("j").Workers(2));
  without.Worker(0, kReady);
  Seen pending(without), running(without), next(without), smaller(without);
  pending.Worker(1, testing::kPending);
  running.Worker(1, kReady);
  next.With([](Observed& observed) { ++observed.job.status.attempt; });
  smaller.With(
      [](Observed& observed) { observed.job.spec.replica_specs.at(Role::kWorker).replicas = 1; });
  const auto note = [](Seen& seen) {
    UnstartedPods pods = Created(3);
    const std::optional<Replica> reported = pods.UpdateDeleted(seen.Build());
    EXPECT_EQ(reported.has_value(), Wait(pods).has_value());
    return reported;
  };
  EXPECT_EQ(note(without), Replica(Role::kWorker, 1));
  EXPECT_EQ(note(pending), Replica(Role::kWorker, 1));
  for (Seen* seen : {&running, &next, &smaller}) EXPECT_EQ(note(*seen), std::nullopt);
}

TEST(UnstartedPodsTest, WhoeverDeletesThemIsNotAnsweredAtTheSamePace) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  const kube::Key pod{"default", "j-worker-1"};
  const auto is_there = [&] {
    world.Settle();
    return world.client.Get(kube::kPodKind, pod).ok();
  };
  world.client.Remove(kube::kPodKind, pod);
  EXPECT_TRUE(is_there()) << "a person may have deleted it";
  for (const milliseconds wait : {milliseconds(100), milliseconds(200), milliseconds(400)}) {
    world.client.Remove(kube::kPodKind, pod);
    world.clock.Advance(wait - milliseconds(1));
    EXPECT_FALSE(is_there());
    world.clock.Advance(milliseconds(1));
    EXPECT_TRUE(is_there());
  }
  const api::TrainingJob job = *world.Job();
  EXPECT_EQ(FindCondition(job.status, kRunning)->reason, "PodDeleted");
  EXPECT_EQ(FindCondition(job.status, kRunning)->message,
            "j-worker-1 has been deleted more than once before it had started; the operator waits "
            "for up to 30 s before it creates it again");
  EXPECT_EQ(job.status.restarts, api::RestartCounts{});
  EXPECT_THAT(world.EventReasons(), ::testing::Contains("PodDeleted").Times(1));
}

}  // namespace
}  // namespace lockstep::controller
