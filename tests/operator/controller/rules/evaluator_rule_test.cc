#include "operator/controller/rules/evaluator_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kBeingDeleted;
using testing::kReady;
using testing::PodState;
using testing::Seen;

const DeletePod kDeleted{"j-evaluator-0", "j-evaluator-0-uid"};

PodState Failed(int code, const char* reason = "") {
  return [=](ObservedPod& pod) {
    Exited(code, reason)(pod);
    pod.failed_since = Time(seconds(1'700'000'000));  // now, of Seen
  };
}

// Trains, and its Evaluator's pod is in this state.
Seen Trains(const PodState& evaluator, const testing::JobBuilder& job = Job("j").Workers(2)) {
  auto with_evaluator = job;
  Seen seen(with_evaluator.Evaluator().Training());
  return seen.Running().Worker(0, kReady).Worker(1, kReady).Pod(Role::kEvaluator, 0, evaluator);
}

TEST(EvaluatorRuleTest, ItIsReplacedAloneEvenInAGang) {
  Seen seen = Trains(Exited(137), Job("j").Workers(2).RestartScope(api::RestartScope::kGang));
  seen.Write();
  EXPECT_EQ(seen.Build().job.status.attempt, 0);
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  EXPECT_THAT(seen.Plan().actions, ElementsAre(kDeleted));
}

TEST(EvaluatorRuleTest, ItsFailuresCostTheJobNothingAndAreReported) {
  Seen seen = Trains(Exited(137, "OOMKilled"), Job("j").Workers(2).BackoffLimit(0));
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());  // counted first, acted on when that is written
  EXPECT_EQ(plan.status.state, "Running");
  EXPECT_EQ(plan.status.restarts, (api::RestartCounts{.evaluator = 1}));
  EXPECT_EQ(plan.status.restart_count, 0) << "counted with the next status";
  EXPECT_EQ(plan.status.failure->role, "evaluator");
  EXPECT_EQ(plan.status.failure->reason, "OOMKilled");
  EXPECT_FALSE(plan.status.next_retry_time) << "no other replica is delayed";
  ASSERT_EQ(plan.events.size(), 1U);
  EXPECT_EQ(plan.events[0].reason, "EvaluatorFailed");
  EXPECT_EQ(plan.events[0].message,
            "evaluator-0 exited with code 137 (OOMKilled); it starts again (failures of the "
            "Evaluator: 1, which do not count against backoffLimit)");
  EXPECT_EQ(seen.Write().Plan().status.restart_count, 1);
}

TEST(EvaluatorRuleTest, ItBacksOffAndLeavesItsFailedPodMeanwhile) {
  Seen seen = Trains(Failed(137));
  seen.With([](Observed& observed) { observed.job.status.restarts.evaluator = 2; });
  EXPECT_EQ(seen.Plan().events[0].message,
            "evaluator-0 exited with code 137; it starts again in 20s (failures of the "
            "Evaluator: 3, which do not count against backoffLimit)");
  seen.Write();
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_THAT(seen.Later(seconds(19)).Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().requeue_after, Duration(seconds(1)));
  EXPECT_THAT(seen.Later(seconds(1)).Plan().actions, ElementsAre(kDeleted));
}

TEST(EvaluatorRuleTest, ManyFailuresDelayItByTheLongestBackOff) {
  Seen seen = Trains(Failed(137));
  seen.With([](Observed& observed) { observed.job.status.restarts.evaluator = 1000; }).Write();
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  EXPECT_THAT(seen.Later(minutes(5) - seconds(1)).Plan().actions, IsEmpty());
  EXPECT_THAT(seen.Later(seconds(1)).Plan().actions, ElementsAre(kDeleted));
}

TEST(EvaluatorRuleTest, ADisruptionIsCountedAsOneAndMakesItStartAgainAtOnce) {
  Seen seen = Trains(kBeingDeleted);
  seen.With([](Observed& observed) { observed.job.status.restarts.evaluator = 9; }).Write();
  EXPECT_EQ(seen.Build().job.status.restarts,
            (api::RestartCounts{.disruption = 1, .evaluator = 9}));
  seen.With([](Observed& observed) { observed.pods.pop_back(); });
  ASSERT_EQ(seen.Plan().actions.size(), 1u);
  EXPECT_EQ(std::get<CreatePod>(seen.Plan().actions[0]).role, Role::kEvaluator);
}

// Its test data cannot be read, say. The failed pod has the log that says so.
TEST(EvaluatorRuleTest, APermanentFailureEndsEvaluationButNotTheJob) {
  Seen seen = Trains(Failed(11));
  EXPECT_FALSE(IsEvaluatorGone(Trains(Failed(137)).Build()));
  EXPECT_TRUE(IsEvaluatorGone(seen.Build()));
  ASSERT_EQ(seen.Plan().events.size(), 1U);
  EXPECT_EQ(seen.Plan().events[0].message,
            "evaluator-0 exited with code 11, which is not retried; the job goes on without "
            "evaluation");
  seen.Write();
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  EXPECT_EQ(seen.Build().job.status.failure->exit_code, 11);
  EXPECT_EQ(seen.Build().job.status.restarts, api::RestartCounts{});
  const Plan later = seen.Later(minutes(60)).Plan();
  EXPECT_THAT(later.actions, IsEmpty());
  EXPECT_THAT(later.events, IsEmpty()) << "said once";
}

TEST(EvaluatorRuleTest, WhatItDoesNotSeeIsReportedUntilItDoes) {
  Seen seen = Trains(kReady);
  seen.With([](Observed& observed) { observed.group.evaluator_misses_checkpoints = true; });
  ASSERT_EQ(seen.Plan().events.size(), 1U);
  EXPECT_EQ(seen.Plan().events[0].reason, "CheckpointsNotSeen");
  seen.Write();
  const api::Condition* running = FindCondition(seen.Build().job.status, kRunning);
  EXPECT_TRUE(IsTrue(seen.Build().job.status, kRunning));
  EXPECT_EQ(running->reason, "CheckpointsNotSeen");
  EXPECT_EQ(running->message,
            "the Evaluator does not see the checkpoints that the leading pod saves: is "
            "checkpoint.directory on a volume that both pods mount?");
  EXPECT_THAT(seen.Plan().events, IsEmpty()) << "said once";
  seen.With([](Observed& observed) { observed.group.evaluator_misses_checkpoints = false; });
  EXPECT_EQ(FindCondition(seen.Plan().status, kRunning)->reason, "AllReplicasReady");
}

TEST(EvaluatorRuleTest, RestartsByTheKubeletCostNothingEither) {
  const PodState restarted = [](ObservedPod& pod) {
    kReady(pod);
    pod.restart_count = 9;
  };
  Seen seen =
      Trains(restarted, Job("j").Workers(2).BackoffLimit(0).RestartScope(api::RestartScope::kPod));
  EXPECT_EQ(seen.Plan().status.state, "Running");
  seen.With([](Observed& observed) { Exited(137)(observed.pods.back()); }).Write();
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{.evaluator = 10}));
}

}  // namespace
}  // namespace lockstep::controller
