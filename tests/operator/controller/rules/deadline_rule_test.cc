#include "operator/controller/rules/deadline_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "operator/controller/rules/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using std::chrono::seconds;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
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

}  // namespace
}  // namespace lockstep::controller
