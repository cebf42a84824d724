#include "operator/controller/rules/parts/readiness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/replicas.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::DependencyStatus;
using api::Role;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::JobBuilder;
using testing::kBeingDeleted;
using testing::kPending;
using testing::kReady;
using testing::Seen;

constexpr Role kPs = Role::kParameterServer;

JobBuilder ServersFirst() {
  return Job("j").ParameterServers(2).Workers(2).DependsOn(Role::kWorker, kPs,
                                                           DependencyStatus::kReady);
}

// Helpers that end before the workers start.
JobBuilder HelpersFirst() {
  return Job("j")
      .ParameterServers(2)
      .Workers(1)
      .RestartScope(api::RestartScope::kGang)
      .DependsOn(Role::kWorker, kPs, DependencyStatus::kComplete);
}

std::vector<CreatePod> Created(const Plan& plan) {
  std::vector<CreatePod> created;
  for (const Action& action : plan.actions) {
    if (const auto* pod = std::get_if<CreatePod>(&action)) created.push_back(*pod);
  }
  return created;
}

std::string SaidOf(const Plan& plan) {
  const api::Condition* running = FindCondition(plan.status, kRunning);
  return running == nullptr ? "" : running->reason + ": " + running->message;
}

TEST(StartOrderTest, ARoleWaitsUntilAllThatItDependsOnHasGotSoFar) {
  struct Case {
    const char* name;
    JobBuilder job;
    testing::PodState first, second;  // of the servers
    std::string waits;                // empty: the role starts
  };
  const JobBuilder ready = ServersFirst(), complete = HelpersFirst();
  const Case cases[] = {
      {"neither is ready", ready, kPending, kPending, "Worker waits until PS is ready (0 of 2)"},
      {"one is ready", ready, kReady, kPending, "Worker waits until PS is ready (1 of 2)"},
      {"one is being deleted", ready, kReady, kBeingDeleted,
       "Worker waits until PS is ready (1 of 2)"},
      {"one has failed", ready, kReady, Exited(1), "Worker waits until PS is ready (1 of 2)"},
      {"both are ready", ready, kReady, kReady, ""},
      {"one has succeeded already", ready, kReady, Exited(0), ""},
      {"both run", complete, kReady, kReady, "Worker waits until PS has completed (0 of 2)"},
      {"one has succeeded", complete, kReady, Exited(0),
       "Worker waits until PS has completed (1 of 2)"},
      {"both have succeeded", complete, Exited(0), Exited(0), ""},
  };
  for (const Case& c : cases) {
    Seen seen(c.job);
    seen.Service().Pod(kPs, 0, c.first).Pod(kPs, 1, c.second);
    EXPECT_EQ(WaitsText(seen.Build()), c.waits) << c.name;
    Plan plan;
    EXPECT_EQ(AddStartedRoles(seen.Build(), plan), c.waits.empty()) << c.name;
    EXPECT_EQ(plan.status.started_roles.size(), c.waits.empty() ? 1U : 0U) << c.name;
  }
}

TEST(StartOrderTest, WhatWaitsIsCreatedInThePlanAfterTheNote) {
  Seen seen(ServersFirst());
  const Plan first = seen.Service().Plan();
  EXPECT_THAT(Created(first), ElementsAre(CreatePod{kPs, 0, 0}, CreatePod{kPs, 1, 0}));
  EXPECT_EQ(SaidOf(first), "WaitsForRole: Worker waits until PS is ready (0 of 2)");
  const Plan noting = seen.Pod(kPs, 0, kReady).Pod(kPs, 1, kReady).Plan();
  EXPECT_THAT(noting.actions, IsEmpty()) << "the note must be written first";
  EXPECT_THAT(noting.status.started_roles, ElementsAre(Role::kWorker));
  EXPECT_FALSE(noting.status_can_wait);
  EXPECT_THAT(noting.events, ElementsAre(PlannedEvent{PlannedEvent::Type::kNormal, "RoleStarted",
                                                      "Worker starts: PS is ready"}));
  EXPECT_THAT(Created(seen.Write().Plan()),
              ElementsAre(CreatePod{Role::kWorker, 0, 0}, CreatePod{Role::kWorker, 1, 0}));
  EXPECT_EQ(SaidOf(seen.Plan()), "PodsNotReady: not all replicas are ready yet");
}

TEST(StartOrderTest, ARoleThatHasStartedWaitsNoMoreInItsAttempt) {
  Seen seen(ServersFirst());
  seen.Service().Pod(kPs, 0, kReady).Pod(kPs, 1, kReady).Write().NoPods();
  seen.Pod(kPs, 0, kReady).Pod(kPs, 1, kPending).Worker(0, kReady);
  EXPECT_EQ(WaitsText(seen.Build()), "");
  EXPECT_THAT(Created(seen.Plan()), ElementsAre(CreatePod{Role::kWorker, 1, 0}));
}

TEST(StartOrderTest, TheNextAttemptStartsInTheSameOrder) {
  Seen seen(HelpersFirst());
  seen.Service().Pod(kPs, 0, Exited(0)).Pod(kPs, 1, Exited(0)).Write();
  ASSERT_THAT(seen.Build().job.status.started_roles, ElementsAre(Role::kWorker));
  seen.Worker(0, testing::ExitedBefore(137)).Write();
  ASSERT_EQ(seen.Build().job.status.attempt, 1);
  EXPECT_THAT(seen.Build().job.status.started_roles, IsEmpty());
  EXPECT_THAT(Created(seen.NoPods().Plan()),
              ElementsAre(CreatePod{kPs, 0, 1}, CreatePod{kPs, 1, 1}));
}

TEST(StartOrderTest, ALostReplicaAloneDoesNotBeginTheOrderAgain) {
  Seen seen(ServersFirst().RestartScope(api::RestartScope::kPod));
  seen.Service().Pod(kPs, 0, kReady).Pod(kPs, 1, kReady).Write().NoPods();
  seen.Pod(kPs, 0, testing::ExitedBefore(137)).Pod(kPs, 1, kReady);
  seen.Worker(0, kReady).Worker(1, testing::ExitedBefore(137)).Write();
  EXPECT_EQ(seen.Build().job.status.attempt, 0);
  EXPECT_THAT(seen.Build().job.status.started_roles, ElementsAre(Role::kWorker));
  seen.NoPods().Pod(kPs, 1, kReady).Worker(0, kReady);
  EXPECT_THAT(Created(seen.Plan()),
              ElementsAre(CreatePod{Role::kWorker, 1, 0}, CreatePod{kPs, 0, 0}));
}

TEST(StartOrderTest, SeveralRolesWaitForEachTheirOwn) {
  Seen seen(Job("j")
                .ParameterServers(1)
                .Chief()
                .Workers(2)
                .Evaluator()
                .DependsOn(Role::kChief, kPs, DependencyStatus::kReady)
                .DependsOn(Role::kWorker, kPs, DependencyStatus::kReady)
                .DependsOn(Role::kWorker, Role::kChief, DependencyStatus::kReady)
                .DependsOn(Role::kEvaluator, Role::kWorker, DependencyStatus::kReady));
  EXPECT_THAT(Created(seen.Service().Plan()), ElementsAre(CreatePod{kPs, 0, 0}));
  EXPECT_EQ(WaitsText(seen.Build()),
            "Chief waits until PS is ready (0 of 1); "
            "Worker waits until PS is ready (0 of 1) and Chief is ready (0 of 1); "
            "Evaluator waits until Worker is ready (0 of 2)");
  seen.Pod(kPs, 0, kReady).Write();
  EXPECT_THAT(Created(seen.Plan()), ElementsAre(CreatePod{Role::kChief, 0, 0}));
  seen.Pod(Role::kChief, 0, kReady).Write();
  EXPECT_THAT(Created(seen.Plan()),
              ElementsAre(CreatePod{Role::kWorker, 0, 0}, CreatePod{Role::kWorker, 1, 0}));
  seen.Worker(0, kReady).Worker(1, kReady);
  // The job runs without its Evaluator, so that the condition does not tell of it any more.
  EXPECT_TRUE(IsTrue(seen.Plan().status, kRunning));
  seen.Write();
  EXPECT_THAT(Created(seen.Plan()), ElementsAre(CreatePod{Role::kEvaluator, 0, 0}));
}

// There may be no room for the others, ever.
TEST(StartOrderTest, OnlyReplicasThatTheJobRequiresAreAwaited) {
  Seen seen(Job("j").Chief().Workers(4).ElasticTorch(2, 4).DependsOn(Role::kChief, Role::kWorker,
                                                                     DependencyStatus::kReady));
  seen.Service().Worker(0, kReady);
  EXPECT_EQ(WaitsText(seen.Build()), "Chief waits until Worker is ready (1 of 2)");
  seen.Worker(1, kReady).Worker(2, kPending);
  EXPECT_EQ(WaitsText(seen.Build()), "");
}

TEST(StartOrderTest, ARoleWithoutReplicasKeepsNobodyWaiting) {
  Seen seen(Job("j").ParameterServers(0).Workers(1).DependsOn(Role::kWorker, kPs,
                                                              DependencyStatus::kReady));
  EXPECT_THAT(Created(seen.Service().Write().Plan()), ElementsAre(CreatePod{Role::kWorker, 0, 0}));
}

// Its node may be drained, or garbage collection may have deleted the pod.
TEST(StartOrderTest, AHelperWhoseEndHasBeenAwaitedIsNotStartedAgain) {
  Seen seen(HelpersFirst());
  seen.Service().Pod(kPs, 0, Exited(0)).Pod(kPs, 1, Exited(0)).Write();
  seen.NoPods().Pod(kPs, 1, Exited(0)).Worker(0, kReady).Write();
  EXPECT_TRUE(IsTrue(seen.Build().job.status, kRunning));
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Build().job.status.ready_replicas, "3/3");
  EXPECT_EQ(seen.Build().job.status.replica_statuses.at(kPs).succeeded, 2);
  EXPECT_EQ(seen.Build().job.status.attempt, 0);
}

TEST(StartOrderTest, AHelperThatIsGoneBeforeAnybodyHasNotedItsEndIsStartedAgain) {
  Seen seen(HelpersFirst());
  seen.Service().Pod(kPs, 0, Exited(0));
  EXPECT_THAT(Created(seen.Plan()), ElementsAre(CreatePod{kPs, 1, 0}));
}

TEST(StartOrderTest, WorkersWhoseEndIsAwaitedMayBeGone) {
  Seen seen(Job("j").Chief().Workers(2).DependsOn(Role::kChief, Role::kWorker,
                                                  DependencyStatus::kComplete));
  seen.Service().Worker(0, kReady).Worker(1, Exited(0)).Write().NoPods().Worker(0, Exited(0));
  EXPECT_THAT(seen.Plan().status.started_roles, ElementsAre(Role::kChief));
  EXPECT_THAT(Created(seen.Write().Plan()), ElementsAre(CreatePod{Role::kChief, 0, 0}));
  EXPECT_FALSE(IsTerminal(seen.Plan().status)) << "the chief decides";
}

TEST(StartOrderTest, ASuspendedJobForgetsWhatHasStarted) {
  Seen seen(ServersFirst());
  seen.Service().Pod(kPs, 0, kReady).Pod(kPs, 1, kReady).Write();
  seen.With([](Observed& observed) { observed.job.spec.suspend = true; }).Write();
  EXPECT_THAT(seen.Build().job.status.started_roles, IsEmpty());
  seen.NoPods().Write();
  seen.With([](Observed& observed) { observed.job.spec.suspend = false; }).Write();
  EXPECT_THAT(Created(seen.Plan()), ElementsAre(CreatePod{kPs, 0, 1}, CreatePod{kPs, 1, 1}));
}

TEST(StartOrderTest, FaultsComeBeforeWhatWaitsOnPurpose) {
  Seen seen(ServersFirst());
  seen.Service().Pod(kPs, 0, kReady).Pod(kPs, 1, [](ObservedPod& pod) {
    pod.unschedulable = "0/3 nodes are available";
  });
  EXPECT_EQ(SaidOf(seen.Plan()), "Unschedulable: no node takes j-ps-1: 0/3 nodes are available");
}

TEST(LacksReplicasTest, OnlyAJobThatHasRunLacksWhatItRequires) {
  Seen one(Job("j").Workers(1));
  EXPECT_FALSE(LacksReplicas(one.Service().Build())) << "it is Pending";
  one.Running();
  EXPECT_TRUE(LacksReplicas(one.Build())) << "its pod is gone";
  EXPECT_TRUE(LacksReplicas(one.Worker(0, kPending).Build()));
  EXPECT_FALSE(LacksReplicas(one.NoPods().Worker(0, kReady).Build()));
  const auto manage = [&one](const std::string& by) {
    one.NoPods().With([&by](Observed& observed) { observed.job.spec.managed_by = by; });
  };
  manage("kueue.x-k8s.io/multikueue");
  EXPECT_FALSE(LacksReplicas(one.Build())) << "its pods are in another cluster";
  manage("");
  EXPECT_TRUE(LacksReplicas(one.Build()));
  one.NoPods().With([](Observed& observed) { observed.job.spec.suspend = true; });
  EXPECT_FALSE(LacksReplicas(one.Build()));
  EXPECT_FALSE(LacksReplicas(one.Write().Build()));

  Seen gang(Job("j").Workers(2).RestartScope(api::RestartScope::kGang));
  gang.Running().Worker(0, kReady).Worker(1, testing::ExitedBefore(137)).Write().NoPods();
  ASSERT_EQ(StateOf(gang.Build().job.status), kRestarting);
  EXPECT_TRUE(LacksReplicas(gang.Worker(0, kReady).Worker(1, kPending).Build()));
}

TEST(LacksReplicasTest, OptionalReplicasAndRolesThatWaitAreNotLacking) {
  Seen elastic(Job("j").Workers(3).ElasticTorch(1, 3));
  elastic.Running().Worker(0, kReady).Worker(1, kPending);
  EXPECT_FALSE(LacksReplicas(elastic.Build()));
  elastic.NoPods().Worker(0, kPending).Worker(1, kReady).Worker(2, kReady);
  EXPECT_TRUE(LacksReplicas(elastic.Build())) << "worker 0 is not optional";

  Seen ordered(ServersFirst().RestartScope(api::RestartScope::kGang));
  ordered.Service().Pod(kPs, 0, kReady).Pod(kPs, 1, kReady).Write();
  Seen helpers(HelpersFirst());
  EXPECT_FALSE(
      LacksReplicas(helpers.Service().Pod(kPs, 0, kReady).Pod(kPs, 1, kPending).Write().Build()));
  EXPECT_FALSE(
      LacksReplicas(helpers.NoPods().Pod(kPs, 0, kReady).Pod(kPs, 1, kReady).Write().Build()));
  EXPECT_TRUE(LacksReplicas(helpers.NoPods().Pod(kPs, 0, kReady).Pod(kPs, 1, kPending).Build()))
      << "it has been up, although the job is Pending while the workers wait";
  ordered.Worker(0, kReady).Worker(1, kReady).Write();
  ordered.NoPods().Pod(kPs, 0, kReady).Pod(kPs, 1, kReady).Worker(0, testing::ExitedBefore(137));
  ordered.Worker(1, kReady).Write().NoPods();
  ASSERT_EQ(StateOf(ordered.Build().job.status), kRestarting);
  EXPECT_TRUE(LacksReplicas(ordered.Pod(kPs, 0, kReady).Build()));
  EXPECT_FALSE(LacksReplicas(ordered.Pod(kPs, 1, kReady).Build())) << "the workers wait";
}

TEST(LacksReplicasTest, OfVariantsOneIsEnoughUnlessItIsDone) {
  Seen seen(Job("j").Workers(2).Training().Strategy(api::StrategyType::kIndependent));
  seen.Running().Worker(0, kReady).Worker(1, kPending);
  EXPECT_FALSE(LacksReplicas(seen.Build()));
  seen.NoPods().Worker(0, Exited(0)).Worker(1, kPending).Write();
  EXPECT_TRUE(LacksReplicas(seen.Build()));
}

}  // namespace
}  // namespace lockstep::controller
