#include "operator/controller/memory/failed_actions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr kube::BackoffPolicy kActionBackoff{.initial = seconds(1), .limit = seconds(4)};
const DeletePod kGuarded{"j-worker-0", "uid-0"}, kOther{"j-worker-1", "uid-1"};
const absl::Status kRefused = absl::PermissionDeniedError("a webhook says no");
const absl::Status kDown = absl::UnavailableError("no endpoints");

class FailedActionsTest : public ::testing::Test {
 protected:
  // What is left of a plan with these actions.
  std::vector<Action> Left(std::vector<Action> actions) {
    plan_ = {};
    plan_.actions = std::move(actions);
    failed_.Bound(plan_, now_);
    return plan_.actions;
  }
  void Fails(const Action& action, const absl::Status& end) {
    failed_.Record(action, end, now_, kActionBackoff);
  }

  FailedActions failed_;
  Plan plan_;
  SteadyTime now_{seconds(1000)};
};

TEST_F(FailedActionsTest, OneThatFailsIsRepeatedAtGrowingIntervals) {
  for (const int delay : {1, 2, 4, 4}) {
    Fails(kGuarded, kDown);
    now_ += seconds(delay) - milliseconds(1);
    EXPECT_THAT(Left({kGuarded}), IsEmpty());
    EXPECT_EQ(plan_.requeue_after, milliseconds(1));
    now_ += milliseconds(1);
    EXPECT_THAT(Left({kGuarded}), ElementsAre(kGuarded));
  }
  Fails(kGuarded, absl::OkStatus());
  Fails(kGuarded, kDown);
  now_ += seconds(1);
  EXPECT_THAT(Left({kGuarded}), ElementsAre(kGuarded)) << "it begins anew after a success";
}

TEST_F(FailedActionsTest, OthersAreNotHeldBackAndComeFirst) {
  Fails(kGuarded, kRefused);
  const SetWorkloadCondition ready{"PodsReady", true, "Started", ""};
  const DeletePod by_force{"j-worker-0", "uid-0", /*force=*/true};
  EXPECT_THAT(Left({kGuarded, kOther, by_force, ready}), ElementsAre(kOther, by_force, ready));
  now_ += seconds(1);
  EXPECT_THAT(Left({kGuarded, kOther}), ElementsAre(kOther, kGuarded));
}

TEST_F(FailedActionsTest, ARefusalIsToldAtOnceAndOtherFailuresWhenTheyRepeat) {
  EXPECT_FALSE(failed_.Fault());
  Fails(kGuarded, kDown);
  EXPECT_FALSE(failed_.Fault());
  Fails(kGuarded, kDown);
  EXPECT_EQ(failed_.Fault(), (ActionFault{"DeleteFailed", "no endpoints"}));
  Fails(kGuarded, absl::OkStatus());
  EXPECT_FALSE(failed_.Fault());
  Fails(UpdatePodGroup{}, kRefused);
  EXPECT_EQ(failed_.Fault(), (ActionFault{"UpdateFailed", "a webhook says no"}));
}

TEST_F(FailedActionsTest, AnActionIsFailingFromARefusalOrTheSecondFailureUntilItSucceeds) {
  EXPECT_FALSE(failed_.IsFailing(DeleteJob{}));
  Fails(DeleteJob{}, kRefused);
  EXPECT_TRUE(failed_.IsFailing(DeleteJob{}));
  EXPECT_FALSE(failed_.IsFailing(kOther));
  Fails(DeleteJob{}, absl::OkStatus());
  EXPECT_FALSE(failed_.IsFailing(DeleteJob{}));
  Fails(DeleteJob{}, kDown);
  EXPECT_FALSE(failed_.IsFailing(DeleteJob{}));
  Fails(DeleteJob{}, kDown);
  EXPECT_TRUE(failed_.IsFailing(DeleteJob{}));
}

TEST_F(FailedActionsTest, ToResumeAJobIsNotToSuspendIt) {
  Fails(SetSuspend{false, {{api::Role::kWorker, 2}}}, kRefused);
  EXPECT_TRUE(failed_.IsRefused(SetSuspend{false, {}}));
  EXPECT_FALSE(failed_.IsRefused(SetSuspend{true, {}}));
}

TEST_F(FailedActionsTest, OneThatIsNotWantedAnyMoreIsForgottenWhenItIsDue) {
  Fails(kGuarded, kRefused);
  Left({});  // a plan that charges something has no actions
  EXPECT_TRUE(failed_.Fault());
  EXPECT_EQ(plan_.requeue_after, Duration(seconds(1)));
  now_ += seconds(1);
  Left({kOther});
  EXPECT_FALSE(failed_.Fault());
  EXPECT_EQ(plan_.requeue_after, milliseconds(1)) << "the plan still tells of it";
}

}  // namespace
}  // namespace lockstep::controller
