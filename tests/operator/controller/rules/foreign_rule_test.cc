#include "operator/controller/rules/foreign_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using ::testing::IsEmpty;
using testing::Job;
using testing::Seen;

TEST(ForeignRuleTest, AppliesToJobsOfOthers) {
  struct Case {
    const char* managed_by;
    bool is_foreign;
  };
  const Case cases[] = {
      {"", false},
      {"training.lockstep.dev/operator", false},
      {"kueue.x-k8s.io/multikueue", true},
  };
  for (const Case& c : cases) {
    Seen seen(Job("j").Workers(1).With(
        [&c](api::TrainingJob& job) { job.spec.managed_by = c.managed_by; }));
    EXPECT_EQ(PlanForeign(seen.Build()).has_value(), c.is_foreign) << c.managed_by;
    if (!c.is_foreign) continue;
    const Plan plan = seen.Plan();
    EXPECT_THAT(plan.actions, IsEmpty());
    EXPECT_EQ(plan.status, api::TrainingJobStatus()) << "not even its state is written";
  }
}

}  // namespace
}  // namespace lockstep::controller
