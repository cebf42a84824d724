#include "operator/controller/rules/rejected_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using testing::Job;
using testing::kReady;
using testing::Seen;

// The server finds the workers' pods invalid.
Seen Rejected() {
  return Seen(Job("j").Chief().Workers(2)).With([](Observed& observed) {
    observed.create_fault = {.message = "spec.containers[0].image: Required value",
                             .is_refusal = true,
                             .invalid_pod = Role::kWorker};
  });
}

TEST(RejectedRuleTest, OnlyATemplateThatTheServerHasNeverAcceptedFailsTheJob) {
  struct Case {
    const char* name;
    std::function<void(Seen&)> change;
    bool fails;
  };
  const Case cases[] = {
      {"no pod exists", [](Seen&) {}, true},
      {"another role's pod exists", [](Seen& seen) { seen.Pod(Role::kChief, 0, kReady); }, true},
      {"another worker exists", [](Seen& seen) { seen.Worker(0, kReady); }, false},
      {"an earlier attempt had pods",
       [](Seen& seen) { seen.With([](Observed& o) { o.job.status.attempt = 1; }); }, false},
      {"a pod was restarted",
       [](Seen& seen) { seen.With([](Observed& o) { o.job.status.restart_count = 1; }); }, false},
      {"a worker has finished",
       [](Seen& seen) { seen.With([](Observed& o) { o.job.status.completed_indexes = {1}; }); },
       false},
      {"the refusal may pass",
       [](Seen& seen) { seen.With([](Observed& o) { o.create_fault->invalid_pod.reset(); }); },
       false},
      {"nothing was refused",
       [](Seen& seen) { seen.With([](Observed& o) { o.create_fault.reset(); }); }, false},
  };
  for (const Case& c : cases) {
    Seen seen = Rejected();
    c.change(seen);
    EXPECT_EQ(PlanRejected(seen.Build()).has_value(), c.fails) << c.name;
    EXPECT_EQ(IsTrue(seen.Plan().status, kFailed), c.fails) << c.name;
  }
}

TEST(RejectedRuleTest, TheJobSaysWhatTheServerSaid) {
  const Plan plan = Rejected().Plan();
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "PodRejected");
  EXPECT_EQ(FindCondition(plan.status, kFailed)->message,
            "spec.containers[0].image: Required value");
}

}  // namespace
}  // namespace lockstep::controller
