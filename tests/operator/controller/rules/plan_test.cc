// Deadline, suspension, hands-off and the order of rules.
#include "operator/controller/rules/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kBeingDeleted;
using testing::kReady;
using testing::Seen;
using ::testing::SizeIs;

TEST(DeadlineRuleTest, FailsTheJobWhenItHasPassedAndComesBackThen) {
  Seen seen(Job("j").Workers(2).ActiveDeadlineSeconds(100));
  seen.Running().Worker(0, kReady).Worker(1, kReady).Later(seconds(30));
  EXPECT_EQ(seen.Plan().requeue_after, seconds(70));
  const Plan plan = seen.Later(seconds(70)).Plan();
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "DeadlineExceeded");
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(seen.Write().Plan().actions, SizeIs(2));  // cleaned up
}

TEST(DeadlineRuleTest, TimeRunsBeforeTheFirstStatusIsWritten) {
  Seen seen(Job("j").Workers(1).ActiveDeadlineSeconds(100));
  EXPECT_EQ(seen.Later(seconds(30)).Plan().requeue_after, seconds(70));
  EXPECT_EQ(seen.Later(seconds(70)).Plan().status.state, "Failed");
}

TEST(DeadlineRuleTest, ASuspendedJobsTimeDoesNotRun) {
  Seen seen(Job("j").Workers(1).ActiveDeadlineSeconds(100).Suspended());
  EXPECT_EQ(seen.Write().Later(seconds(1000)).Plan().status.state, "Suspended");
  seen.With([](Observed& observed) { observed.job.spec.suspend = false; });
  EXPECT_EQ(seen.Plan().status.start_time, seen.Build().now);
  EXPECT_EQ(seen.Plan().requeue_after, seconds(100));
}

TEST(SuspendRuleTest, AJobThatIsBornSuspendedMakesNothing) {
  const Plan plan = Seen(Job("j").Workers(2).Suspended()).Plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(plan.status.state, "Suspended");
  EXPECT_FALSE(plan.status.start_time);
  EXPECT_EQ(plan.status.attempt, 0);
}

TEST(SuspendRuleTest, ARunningJobIsStoppedAndResumedAsANewAttempt) {
  Seen seen(Job("j").Workers(2));
  seen.Running().Worker(0, kReady).Worker(1, kReady);
  seen.With([](Observed& observed) { observed.job.spec.suspend = true; });
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_TRUE(IsTrue(plan.status, kSuspended));
  EXPECT_FALSE(IsTrue(plan.status, kRunning));
  EXPECT_EQ(plan.status.attempt, 1);
  EXPECT_EQ(plan.status.restarts, api::RestartCounts());
  EXPECT_THAT(seen.Write().Plan().actions, SizeIs(2));
  EXPECT_EQ(seen.Plan().status.attempt, 1);
  // Resumed while an old pod is still ending: it is waited for.
  seen.NoPods().Worker(0, kBeingDeleted);
  seen.With([](Observed& observed) {
    observed.job.spec.suspend = false;
    observed.pods[0].attempt = 0;
  });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_FALSE(IsTrue(seen.Plan().status, kSuspended));
  EXPECT_THAT(seen.Write().NoPods().Plan().actions,
              ElementsAre(CreatePod{Role::kWorker, 0, 1}, CreatePod{Role::kWorker, 1, 1}));
}

TEST(SuspendRuleTest, AResumedJobMakesAllItsReplicasAgain) {
  for (const bool independent : {false, true}) {
    auto job = Job("j").Workers(2);
    if (independent) job.Strategy(api::StrategyType::kIndependent);
    Seen seen(job);
    seen.Running().Worker(0, kReady).Worker(1, Exited(0)).Write();
    ASSERT_THAT(seen.Build().job.status.completed_indexes, ElementsAre(1));
    seen.With([](Observed& observed) { observed.job.spec.suspend = true; }).Write();
    seen.NoPods().With([](Observed& observed) { observed.job.spec.suspend = false; }).Write();
    EXPECT_THAT(seen.Plan().actions, SizeIs(independent ? 1 : 2))
        << "each counts in WORLD_SIZE, unless they have nothing to do with each other";
  }
}

TEST(PlanTest, AnotherManagersJobAndOneOnItsWayOutAreLeftAlone) {
  const auto foreign = Job("j").Workers(1).With(
      [](api::TrainingJob& job) { job.spec.managed_by = "kueue.x-k8s.io/multikueue"; });
  const auto leaving =
      Job("j").Workers(1).With([](api::TrainingJob& job) { job.metadata.deletion_time = Time(); });
  for (const auto& job : {foreign, leaving}) {
    const Plan plan = Seen(job).Plan();
    EXPECT_THAT(plan.actions, IsEmpty());
    EXPECT_EQ(plan.status, api::TrainingJobStatus());
  }
}

TEST(PlanTest, AnInvalidSpecFailsTheJobWithTheReason) {
  Seen seen(Job("j").Workers(1));
  seen.With([](Observed& observed) { observed.invalid = "spec.x: found 1, expected 2"; });
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "InvalidSpec");
  EXPECT_EQ(FindCondition(plan.status, kFailed)->message, "spec.x: found 1, expected 2");
}

TEST(PlanTest, ASpecThatWasGoodAndNowIsNotTouchesNoPod) {
  Seen seen(Job("j").Workers(2));
  seen.Running().Worker(0, kReady).Worker(1, kReady);
  seen.With([](Observed& observed) { observed.invalid = "spec.x: found 1, expected 2"; });
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_TRUE(IsTrue(plan.status, kRunning));
  EXPECT_EQ(FindCondition(plan.status, kRunning)->reason, "InvalidSpec");
  EXPECT_THAT(plan.events, SizeIs(1));
  EXPECT_THAT(seen.Write().Plan().events, IsEmpty()) << "told once";
  EXPECT_EQ(seen.NoPods().Plan().status.state, "Running") << "it has had pods";
}

TEST(PlanTest, AReasonThatComesWithAWarningDoesNotWaitForCounts) {
  Seen seen(Job("j").Workers(2));
  seen.Service().Write();
  seen.With([](Observed& observed) { observed.last_status_write = observed.now; });
  seen.Worker(0, [](ObservedPod& pod) { pod.unschedulable = "0/3 nodes"; });
  EXPECT_EQ(FindCondition(seen.Plan().status, kRunning)->reason, "Unschedulable");
  EXPECT_TRUE(seen.Plan().status_can_wait);
  EXPECT_FALSE(seen.Plan().only_counts);
}

TEST(PlanTest, CountsAreHeldBackButConditionsAreNot) {
  Seen seen(Job("j").Workers(2));
  seen.Service().Write();
  seen.With([](Observed& observed) { observed.last_status_write = observed.now; });
  const auto written = seen.Build().job.status;
  seen.Later(seconds(4)).Worker(0, kReady);
  EXPECT_EQ(seen.Plan().status, written);
  EXPECT_EQ(seen.Plan().requeue_after, seconds(6));
  EXPECT_EQ(Seen(seen).Worker(1, kReady).Plan().status.state, "Running");
  EXPECT_EQ(seen.Later(seconds(6)).Plan().status.ready_replicas, "1/2");
}

TEST(PlanTest, WhatNobodyActsOnCanWait) {
  Seen seen(Job("j").Workers(2));
  EXPECT_TRUE(seen.Plan().status_can_wait) << "a first sight";
  seen.Service().Write();
  EXPECT_FALSE(seen.Plan().status_can_wait) << "nothing to write";
  EXPECT_TRUE(Seen(seen).Worker(0, kReady).Plan().status_can_wait) << "counts";
  EXPECT_FALSE(Seen(seen).Worker(0, kReady).Worker(1, kReady).Plan().status_can_wait) << "Running";
  EXPECT_FALSE(Seen(seen).Worker(0, Exited(137)).Plan().status_can_wait) << "a restart";
  EXPECT_FALSE(Seen(Job("j").Workers(2).Suspended()).Plan().status_can_wait);
}

TEST(PlanTest, AFirstSightThatTellsMoreDoesNotWait) {
  const auto scope_pod = Job("j").Workers(2).RestartScope(api::RestartScope::kPod);
  EXPECT_TRUE(Seen(scope_pod).Plan().status_can_wait);
  for (const auto& state : {Exited(137), testing::Evicted()}) {
    EXPECT_FALSE(Seen(scope_pod).Worker(0, state).Plan().status_can_wait) << "it is counted";
  }
  Seen refused(Job("j").Workers(1));
  refused.With([](Observed& observed) { observed.create_fault = {"exceeded quota"}; });
  EXPECT_FALSE(refused.Plan().status_can_wait);
}

TEST(PlanTest, AJobThatIsToldOfLateStartedWhenItWasSeen) {
  Seen seen(Job("j").Workers(1));
  const Time start = seen.Build().now;
  EXPECT_EQ(seen.Later(seconds(5)).Plan().status.start_time, start);
}

TEST(PlanTest, ProgressIsAskedForWhileAJobRuns) {
  Seen seen(Job("j").Workers(1).Training());
  seen.Running().Worker(0, kReady);
  EXPECT_EQ(seen.Plan().requeue_after, seconds(10));
  seen.With([](Observed& observed) { observed.progress.emplace().step = 7; });
  EXPECT_EQ(seen.Plan().status.progress->step, 7);
}

TEST(PlanTest, AWrittenStatusIsStable) {
  for (const auto& state : {testing::kPending, kReady, Exited(137), Exited(0)}) {
    Seen seen(Job("j").Workers(2));
    seen.Service().Worker(0, kReady).Worker(1, state).Write().Write();
    const auto status = seen.Build().job.status;
    EXPECT_EQ(seen.Write().Build().job.status, status);
  }
}

}  // namespace
}  // namespace lockstep::controller
