#include "operator/controller/rules/shrunk_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::Seen;
using ::testing::SizeIs;

// Workers come and go, all decide, and the first two of four have finished.
Seen HalfDone() {
  Seen seen(Job("j")
                .Workers(4)
                .ParameterServers(1)
                .Strategy(api::StrategyType::kParameterServer)
                .RestartScope(api::RestartScope::kPod)
                .SuccessPolicy(api::SuccessPolicy::kAllWorkers)
                .With([](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; }));
  seen.Running().Pod(Role::kParameterServer, 0, kReady);
  for (int i = 0; i < 4; ++i) seen.Worker(i, kReady);
  seen.Write();
  return seen.With([](Observed& observed) {
    for (ObservedPod& pod : observed.pods) {
      if (pod.role == Role::kWorker && pod.index < 2) Exited(0)(pod);
    }
  });
}

void Scale(Seen& seen, int workers) {
  seen.With([workers](Observed& observed) {
    ++observed.job.metadata.generation;
    observed.job.spec.replica_specs[Role::kWorker].replicas = workers;
  });
}

TEST(ShrunkRuleTest, AScaleThatLeavesOnlyFinishedWorkersRestartsThese) {
  for (const bool is_noted : {false, true}) {
    Seen seen = HalfDone();
    if (is_noted) seen.Write();
    Scale(seen, 2);
    const Plan plan = seen.Plan();
    EXPECT_THAT(plan.actions, IsEmpty());
    EXPECT_EQ(plan.status.restarts, api::RestartCounts{});
    ASSERT_THAT(plan.events, SizeIs(1));
    EXPECT_EQ(plan.events[0].reason, "Rescaled");
    seen.Write();
    EXPECT_EQ(seen.Build().job.status.attempt, 1);
    for (int look = 0; look < 3; ++look) {
      EXPECT_EQ(seen.Write().Build().job.status.state, "Restarting") << look;
    }
    EXPECT_EQ(seen.NoPods().Write().Build().job.status.state, "Restarting");
    EXPECT_THAT(seen.Build().job.status.completed_indexes, IsEmpty());
  }
}

// PlanRestart replaces only that pod, and notes the edit.
TEST(ShrunkRuleTest, AFailureThatComesWithTheScaleDoesNotHideIt) {
  Seen seen = HalfDone();
  seen.With([](Observed& observed) {
    for (ObservedPod& pod : observed.pods) {
      if (pod.role == Role::kParameterServer) Exited(137)(pod);
    }
  });
  Scale(seen, 2);
  EXPECT_EQ(seen.Write().Build().job.status.state, "Restarting");
  EXPECT_EQ(seen.Write().Build().job.status.state, "Restarting");
}

TEST(ShrunkRuleTest, OtherScalesAndEndsAreNotItsBusiness) {
  Seen larger = HalfDone();
  Scale(larger, 3);
  EXPECT_FALSE(PlanShrunk(larger.Build())) << "worker 2 still trains";
  Seen done = HalfDone();
  done.With([](Observed& observed) {
    for (ObservedPod& pod : observed.pods) {
      if (pod.role == Role::kWorker) Exited(0)(pod);
    }
  });
  Scale(done, 2);
  EXPECT_FALSE(PlanShrunk(done.Build()));
  EXPECT_EQ(done.Plan().status.state, "Succeeded");
  Seen suspended = HalfDone();
  suspended.With([](Observed& observed) { observed.job.spec.suspend = true; });
  Scale(suspended, 2);
  EXPECT_EQ(suspended.Write().Build().job.status.state, "Suspended");
  EXPECT_FALSE(PlanShrunk(suspended.Build()));
}

TEST(ShrunkRuleTest, AScaleToTheFinishedWorkersEndsAJobOfWhichNoOtherTrains) {
  for (const bool has_pods : {false, true}) {
    Seen seen = HalfDone();
    seen.With([=](Observed& observed) {
      std::erase_if(observed.pods, [=](const ObservedPod& pod) {
        return !has_pods && pod.role == Role::kWorker && pod.index >= 2;
      });
      for (ObservedPod& pod : observed.pods) {
        if (pod.role == Role::kWorker && pod.index >= 2) pod.phase = PodPhase::kPending;
      }
    });
    Scale(seen, 2);
    EXPECT_FALSE(PlanShrunk(seen.Build())) << has_pods;
    EXPECT_EQ(seen.Write().Write().Build().job.status.state, "Succeeded") << has_pods;
    EXPECT_EQ(seen.Build().job.status.attempt, 0) << has_pods;
  }
}

}  // namespace
}  // namespace lockstep::controller
