#include "operator/controller/rules/deadline_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using std::chrono::seconds;
using testing::Exited;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::PodState;
using testing::Seen;
using ::testing::SizeIs;

TEST(DeadlineRuleTest, AppliesOnceTheDeadlineOfAnActiveJobHasPassed) {
  struct Case {
    const char* name;
    testing::JobBuilder job;
    seconds later;
    std::optional<Duration> left;
    bool applies;
  };
  const auto limited = Job("j").Workers(1).ActiveDeadlineSeconds(100);
  const Case cases[] = {
      {"no deadline", Job("j").Workers(1), seconds(1000), std::nullopt, false},
      {"before it", limited, seconds(99), seconds(1), false},
      {"at it", limited, seconds(100), seconds(0), true},
      {"after it", limited, seconds(101), seconds(-1), true},
      {"suspended", testing::JobBuilder(limited).Suspended(), seconds(1000), std::nullopt, false},
  };
  for (const Case& c : cases) {
    Seen seen(c.job);
    seen.Write().Later(c.later);
    EXPECT_EQ(UntilDeadline(seen.Build()), c.left) << c.name;
    EXPECT_EQ(PlanDeadline(seen.Build()).has_value(), c.applies) << c.name;
  }
}

TEST(DeadlineRuleTest, FailsTheJobWhenItHasPassedAndComesBackThen) {
  Seen seen(Job("j").Workers(2).ActiveDeadlineSeconds(100));
  seen.Running().Worker(0, kReady).Worker(1, kReady).Later(seconds(30));
  EXPECT_EQ(seen.Plan().requeue_after, seconds(70));
  const Plan plan = seen.Later(seconds(70)).Plan();
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "DeadlineExceeded");
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(seen.Write().Plan().actions, SizeIs(2));  // cleaned up
}

TEST(DeadlineRuleTest, APendingJobIsNotChargedForRolesThatWaitOnPurpose) {
  using api::Role;
  Seen seen(Job("j").ParameterServers(1).Workers(1).PendingDeadlineSeconds(100).DependsOn(
      Role::kWorker, Role::kParameterServer, api::DependencyStatus::kComplete));
  seen.Service().Pod(Role::kParameterServer, 0, testing::kPending).Write().Later(seconds(40));
  EXPECT_EQ(UntilDeadline(seen.Build()), seconds(60)) << "the helper itself has no node yet";
  seen.NoPods().Pod(Role::kParameterServer, 0, kReady).Write().Later(seconds(10'000));
  EXPECT_EQ(UntilDeadline(seen.Build()), std::nullopt) << "it works";
  seen.NoPods().Pod(Role::kParameterServer, 0, testing::kPending).Write().Later(seconds(10'000));
  EXPECT_EQ(UntilDeadline(seen.Build()), std::nullopt)
      << "its successor has no node: it has worked";
  seen.NoPods().Pod(Role::kParameterServer, 0, Exited(0)).Write().Later(seconds(40));
  EXPECT_EQ(UntilDeadline(seen.Build()), seconds(100)) << "the worker's turn";
  EXPECT_TRUE(PlanDeadline(seen.Later(seconds(100)).Build()));
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

TEST(DeadlineRuleTest, AJobThatIsPendingForTooLongFailsAndSaysWhatItWaitedFor) {
  Seen seen(Job("j").Workers(2).PendingDeadlineSeconds(60));
  seen.Service().Worker(0, kReady).Worker(1, [](ObservedPod& pod) {
    pod.unschedulable = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
  });
  seen.Write().Later(seconds(59));
  EXPECT_EQ(seen.Plan().requeue_after, seconds(1));
  const Plan plan = seen.Later(seconds(1)).Plan();
  const api::Condition* failed = FindCondition(plan.status, kFailed);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->reason, "PendingDeadlineExceeded");
  EXPECT_THAT(failed->message, HasSubstr("pendingDeadlineSeconds (60): "));
  EXPECT_THAT(failed->message, HasSubstr("Insufficient nvidia.com/gpu"));
  EXPECT_THAT(seen.Write().Plan().actions, SizeIs(2)) << "both pods are deleted";
}

TEST(DeadlineRuleTest, OnlyTimeInWhichAJobIsPendingCounts) {
  const auto limited = Job("j").Workers(2).PendingDeadlineSeconds(60);
  Seen up(limited);
  up.Service().Write().Worker(0, kReady).Worker(1, kReady).Later(seconds(1000));
  EXPECT_EQ(up.Plan().status.state, "Running") << "all came up just in time";
  Seen restarting(limited);
  restarting.Running().Worker(0, kReady).Worker(1, Exited(137)).Later(seconds(60));
  restarting.Write().NoPods().Later(seconds(1000));
  EXPECT_EQ(restarting.Plan().status.state, "Restarting");
  Seen unready(limited);
  unready.Running().Worker(0, kReady).Worker(1, [](ObservedPod&) {}).Later(seconds(1000));
  EXPECT_EQ(unready.Plan().status.state, "Running") << "it has run since its start";
}

TEST(DeadlineRuleTest, IndependentReplicasArePendingUntilOneIsUp) {
  const auto limited = Job("j")
                           .Workers(2)
                           .Training()
                           .Strategy(api::StrategyType::kIndependent)
                           .PendingDeadlineSeconds(60);
  const PodState no_room = [](ObservedPod& pod) { pod.unschedulable = "0/3 nodes"; };
  for (const PodState& first : {kReady, Exited(0)}) {
    Seen seen(limited);
    seen.Service().Worker(0, first).Worker(1, no_room).Write().Later(seconds(1000)).Write();
    EXPECT_EQ(seen.Plan().status.state, "Running");
    EXPECT_EQ(FindCondition(seen.Plan().status, kRunning)->reason, "Unschedulable");
  }
  Seen seen(limited);
  seen.Service().Worker(0, no_room).Worker(1, no_room).Write().Later(seconds(1000));
  EXPECT_EQ(seen.Plan().status.state, "Failed");
}

TEST(DeadlineRuleTest, AJobThatIsResumedIsPendingAnew) {
  Seen seen(Job("j").Workers(1).PendingDeadlineSeconds(60).Suspended());
  EXPECT_EQ(seen.Write().Later(seconds(1000)).Plan().status.state, "Suspended");
  seen.With([](Observed& observed) { observed.job.spec.suspend = false; });
  seen.Write().Write().Later(seconds(59));
  EXPECT_EQ(seen.Plan().status.state, "Pending");
  EXPECT_EQ(seen.Later(seconds(1)).Plan().status.state, "Failed");
}

TEST(DeadlineRuleTest, TheEarlierDeadlineDecides) {
  for (const auto& [active, reason] :
       {std::pair(30, "DeadlineExceeded"), std::pair(90, "PendingDeadlineExceeded")}) {
    Seen seen(Job("j").Workers(1).ActiveDeadlineSeconds(active).PendingDeadlineSeconds(60));
    const seconds first(std::min(active, 60));
    EXPECT_EQ(seen.Write().Plan().requeue_after, first);
    EXPECT_EQ(FindCondition(seen.Later(first).Plan().status, kFailed)->reason, reason);
  }
}

TEST(DeadlineRuleTest, OfTwoThatHavePassedTheActiveOneIsTheReason) {
  Seen seen(Job("j").Workers(1).ActiveDeadlineSeconds(90).PendingDeadlineSeconds(60));
  const Plan plan = seen.Write().Later(seconds(100)).Plan();
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "DeadlineExceeded");
}

TEST(DeadlineRuleTest, AJobThatRunsWaitsForNoReplica) {
  const auto limited = Job("j").Workers(2).PendingDeadlineSeconds(60);
  EXPECT_TRUE(IsWaiting(Seen(limited).Write().Build()));
  EXPECT_FALSE(IsWaiting(Seen(limited).Worker(0, kReady).Worker(1, kReady).Build()));
  EXPECT_FALSE(IsWaiting(Seen(limited).Running().Worker(0, kReady).Build()));
}

}  // namespace
}  // namespace lockstep::controller
