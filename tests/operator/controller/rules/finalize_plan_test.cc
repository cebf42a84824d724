#include "operator/controller/rules/finalize_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::Exited;
using testing::Job;
using testing::kReady;
using testing::Seen;

TEST(FinalizePlanTest, AReasonThatComesWithAWarningDoesNotWaitForCounts) {
  Seen seen(Job("j").Workers(2));
  seen.Service().Write();
  seen.With([](Observed& observed) { observed.last_status_write = observed.now; });
  seen.Worker(0, [](ObservedPod& pod) { pod.unschedulable = "0/3 nodes"; });
  EXPECT_EQ(FindCondition(seen.Plan().status, kRunning)->reason, "Unschedulable");
  EXPECT_TRUE(seen.Plan().status_can_wait);
  EXPECT_FALSE(seen.Plan().only_counts);
}

TEST(FinalizePlanTest, CountsAreHeldBackButConditionsAreNot) {
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

// Makes a pod one that was first seen to have succeeded at `since`.
testing::PodState SucceededAt(Time since) {
  return [since](ObservedPod& pod) {
    Exited(0)(pod);
    pod.succeeded_since = since;
  };
}

TEST(FinalizePlanTest, WorkersThatEndTogetherAreWrittenTogether) {
  Seen seen(Job("j").Workers(3).SuccessPolicy(api::SuccessPolicy::kAllWorkers));
  seen.Running().Worker(0, kReady).Worker(2, kReady);
  const auto written = seen.Build().job.status;
  const Time end = seen.Build().now;
  seen.Worker(1, SucceededAt(end));
  EXPECT_EQ(seen.Plan().status, written);
  EXPECT_EQ(seen.Plan().requeue_after, seconds(1));
  seen.Later(seconds(1));
  EXPECT_THAT(seen.Plan().status.completed_indexes, ElementsAre(1));
  seen.NoPods().Worker(0, SucceededAt(seen.Build().now)).Worker(1, SucceededAt(end));
  seen.Worker(2, kReady);
  EXPECT_THAT(seen.Plan().status.completed_indexes, ElementsAre(0, 1))
      << "the wait is from the first success";
}

TEST(FinalizePlanTest, ACompletionThatComesWithOtherNewsIsWrittenAtOnce) {
  Seen seen(Job("j").Workers(2).SuccessPolicy(api::SuccessPolicy::kAllWorkers));
  seen.Running();
  seen.Worker(0, SucceededAt(seen.Build().now)).Worker(1, SucceededAt(seen.Build().now));
  EXPECT_EQ(seen.Plan().status.state, "Succeeded");
  EXPECT_THAT(seen.Plan().status.completed_indexes, ElementsAre(0, 1));
}

TEST(FinalizePlanTest, WhatNobodyActsOnCanWait) {
  Seen seen(Job("j").Workers(2));
  EXPECT_TRUE(seen.Plan().status_can_wait) << "a first sight";
  seen.Service().Write();
  EXPECT_FALSE(seen.Plan().status_can_wait) << "nothing to write";
  EXPECT_TRUE(Seen(seen).Worker(0, kReady).Plan().status_can_wait) << "counts";
  EXPECT_FALSE(Seen(seen).Worker(0, kReady).Worker(1, kReady).Plan().status_can_wait) << "Running";
  EXPECT_FALSE(Seen(seen).Worker(0, Exited(137)).Plan().status_can_wait) << "a restart";
  EXPECT_FALSE(Seen(Job("j").Workers(2).Suspended()).Plan().status_can_wait);
}

TEST(FinalizePlanTest, AFirstSightThatReportsMoreDoesNotWait) {
  const auto scope_pod = Job("j").Workers(2).RestartScope(api::RestartScope::kPod);
  EXPECT_TRUE(Seen(scope_pod).Plan().status_can_wait);
  for (const auto& state : {Exited(137), testing::Evicted()}) {
    EXPECT_FALSE(Seen(scope_pod).Worker(0, state).Plan().status_can_wait)
        << "the failure is counted";
  }
  Seen refused(Job("j").Workers(1));
  refused.With([](Observed& observed) { observed.create_fault = {"exceeded quota"}; });
  EXPECT_FALSE(refused.Plan().status_can_wait);
}

TEST(FinalizePlanTest, AJobWhoseFirstStatusIsLateStartedWhenItWasSeen) {
  Seen seen(Job("j").Workers(1));
  const Time start = seen.Build().now;
  EXPECT_EQ(seen.Later(seconds(5)).Plan().status.start_time, start);
}

TEST(FinalizePlanTest, ProgressIsAskedForWhileAJobRuns) {
  Seen seen(Job("j").Workers(1).Training());
  seen.Running().Worker(0, kReady);
  EXPECT_EQ(seen.Plan().requeue_after, seconds(10));
  seen.With([](Observed& observed) { observed.progress.emplace().step = 7; });
  EXPECT_EQ(seen.Plan().status.progress->step, 7);
}

}  // namespace
}  // namespace lockstep::controller
