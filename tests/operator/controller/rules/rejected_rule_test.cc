#include "operator/controller/rules/rejected_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using ::testing::HasSubstr;
using testing::Job;
using testing::kReady;
using testing::Seen;

TEST(RejectedRuleTest, ATemplateThatTheServerFindsInvalidFailsTheJob) {
  Seen seen(Job("j").Workers(2));
  seen.With([](Observed& observed) {
    observed.create_fault = {.message = "spec.containers[0].image: Required value",
                             .is_refusal = true,
                             .invalid_pod = api::Role::kWorker};
  });
  const Plan plan = seen.Plan();
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "PodRejected");
  EXPECT_THAT(FindCondition(plan.status, kFailed)->message, HasSubstr("Required value"));
}

TEST(RejectedRuleTest, WhatMayPassIsWaitedFor) {
  Seen refused(Job("j").Workers(2));
  refused.With([](Observed& observed) {
    observed.create_fault = {.message = "exceeded quota", .is_refusal = true};
  });
  EXPECT_EQ(FindCondition(refused.Plan().status, kFailed), nullptr);
  // The server has taken one like it before.
  Seen accepted(Job("j").Workers(2));
  accepted.Worker(0, kReady).With([](Observed& observed) {
    observed.create_fault = {.message = "a webhook has changed its mind",
                             .is_refusal = true,
                             .invalid_pod = api::Role::kWorker};
  });
  EXPECT_EQ(FindCondition(accepted.Plan().status, kFailed), nullptr);
}

}  // namespace
}  // namespace lockstep::controller
