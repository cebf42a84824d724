#include "operator/controller/rules/left_alone_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using ::testing::IsEmpty;
using testing::Job;
using testing::Seen;

TEST(LeftAloneRuleTest, AppliesToJobsOfOthersAndToThoseBeingDeleted) {
  struct Case {
    const char* managed_by;
    bool is_deleted;
    bool left_alone;
  };
  const Case cases[] = {
      {"", false, false},
      {"training.lockstep.dev/operator", false, false},
      {"kueue.x-k8s.io/multikueue", false, true},
      {"", true, true},
      {"training.lockstep.dev/operator", true, true},
  };
  for (const Case& c : cases) {
    Seen seen(Job("j").Workers(1).With([&c](api::TrainingJob& job) {
      job.spec.managed_by = c.managed_by;
      if (c.is_deleted) job.metadata.deletion_time = Time();
    }));
    EXPECT_EQ(PlanLeftAlone(seen.Build()).has_value(), c.left_alone) << c.managed_by;
    if (!c.left_alone) continue;
    const Plan plan = seen.Plan();
    EXPECT_THAT(plan.actions, IsEmpty());
    EXPECT_EQ(plan.status, api::TrainingJobStatus()) << "not even its state is written";
  }
}

}  // namespace
}  // namespace lockstep::controller
