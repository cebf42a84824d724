#include "operator/controller/rules/invalid_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using ::testing::ElementsAre;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::Seen;
using ::testing::SizeIs;

void MakeInvalid(Observed& observed) {
  observed.invalid = "spec.x: found 1, expected 2";
}

TEST(InvalidRuleTest, OnlyAJobThatNeverHadPodsFails) {
  struct Case {
    const char* had_pods;
    std::function<void(Observed&)> change;
    bool fails;
  };
  const Case cases[] = {
      {"never", [](Observed&) {}, true},
      {"in an earlier attempt", [](Observed& observed) { observed.job.status.attempt = 1; }, false},
      {"one finished", [](Observed& observed) { observed.job.status.completed_indexes = {0}; },
       false},
      {"one restarted", [](Observed& observed) { observed.job.status.restart_count = 1; }, false},
  };
  for (const Case& c : cases) {
    Seen seen(Job("j").Workers(2));
    const Plan plan = seen.With(MakeInvalid).With(c.change).Plan();
    EXPECT_EQ(IsTrue(plan.status, kFailed), c.fails) << c.had_pods;
    EXPECT_THAT(plan.actions, IsEmpty()) << c.had_pods;
  }
}

TEST(InvalidRuleTest, AnInvalidSpecFailsTheJobWithTheReason) {
  Seen seen(Job("j").Workers(1));
  seen.With(MakeInvalid);
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "InvalidSpec");
  EXPECT_EQ(FindCondition(plan.status, kFailed)->message, "spec.x: found 1, expected 2");
}

TEST(InvalidRuleTest, ASpecThatWasGoodAndNowIsNotTouchesNoPod) {
  Seen seen(Job("j").Workers(2));
  seen.Running().Worker(0, kReady).Worker(1, kReady);
  seen.With(MakeInvalid);
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_TRUE(IsTrue(plan.status, kRunning));
  EXPECT_EQ(FindCondition(plan.status, kRunning)->reason, "InvalidSpec");
  EXPECT_THAT(plan.events, SizeIs(1));
  EXPECT_THAT(seen.Write().Plan().events, IsEmpty()) << "told once";
  EXPECT_EQ(seen.NoPods().Plan().status.state, "Running") << "it has had pods";
}

TEST(InvalidRuleTest, WhileAJobIsHeldItsFinishedWorkersAreRecorded) {
  Seen seen(Job("j").Workers(2).SuccessPolicy(api::SuccessPolicy::kAllWorkers));
  seen.Running().Worker(0, kReady).Worker(1, Exited(0)).With(MakeInvalid);
  EXPECT_THAT(seen.Plan().status.completed_indexes, ElementsAre(1));
}

}  // namespace
}  // namespace lockstep::controller
