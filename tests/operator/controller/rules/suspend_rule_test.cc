#include "operator/controller/rules/suspend_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/attempt.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using ::testing::ElementsAre;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kBeingDeleted;
using testing::kReady;
using testing::Seen;
using ::testing::SizeIs;

TEST(SuspendRuleTest, OneRuleStopsAJobAndTheOtherResumesIt) {
  struct Case {
    const char* name;
    bool spec_suspends;
    bool status_says_so;
    bool stops, resumes;
  };
  const Case cases[] = {
      {"runs", false, false, false, false},
      {"is to stop", true, false, true, false},
      {"is stopped", true, true, true, false},
      {"is to go on", false, true, false, true},
  };
  for (const Case& c : cases) {
    Seen seen(Job("j").Workers(1));
    const auto suspend = [&seen](bool value) {
      seen.With([value](Observed& observed) { observed.job.spec.suspend = value; });
    };
    suspend(c.status_says_so);
    seen.Write();
    suspend(c.spec_suspends);
    EXPECT_EQ(PlanSuspended(seen.Build()).has_value(), c.stops) << c.name;
    EXPECT_EQ(PlanResumed(seen.Build()).has_value(), c.resumes) << c.name;
  }
}

TEST(SuspendRuleTest, AJobThatIsBornSuspendedMakesNothing) {
  const Plan plan = Seen(Job("j").Workers(2).Suspended()).Plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(plan.status.state, "Suspended");
  EXPECT_FALSE(plan.status.start_time);
  EXPECT_EQ(plan.status.attempt, 0);
}

// Kueue was switched off: nobody else resumes what it has suspended.
TEST(SuspendRuleTest, AJobOfAQueueSaysThatTheOperatorRunsWithoutKueue) {
  const auto message = [](bool kueue) {
    Seen seen(Job("j").Workers(1).Suspended());
    seen.With([kueue](Observed& observed) {
      observed.job.metadata.labels["kueue.x-k8s.io/queue-name"] = "gpus";
      observed.settings.kueue = kueue;
    });
    const auto plan = PlanSuspended(seen.Build());
    return plan ? FindCondition(plan->status, kSuspended)->message : "";
  };
  EXPECT_EQ(message(false),
            "spec.suspend is true; the job names the queue gpus, but the operator runs without "
            "--kueue and does not resume it");
  EXPECT_EQ(message(true), "spec.suspend is true");
}

TEST(SuspendRuleTest, ARunningJobIsStoppedAndResumedAsANewAttempt) {
  Seen seen(Job("j").Workers(2));
  seen.Running().Worker(0, kReady).Worker(1, kReady);
  seen.With([](Observed& observed) { observed.job.spec.suspend = true; });
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_TRUE(IsTrue(plan.status, kSuspended));
  EXPECT_FALSE(IsTrue(plan.status, kRunning));
  EXPECT_EQ(plan.status.attempt, 1);
  EXPECT_EQ(plan.status.restarts, api::RestartCounts());
  EXPECT_THAT(seen.Write().Plan().actions, SizeIs(2));
  EXPECT_EQ(seen.Plan().status.attempt, 1);
  // Resumed while an old pod is still ending: it is waited for.
  seen.NoPods().Worker(0, kBeingDeleted);
  seen.With([](Observed& observed) {
    observed.job.spec.suspend = false;
    observed.pods[0].attempt = 0;
  });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_FALSE(IsTrue(seen.Plan().status, kSuspended));
  EXPECT_THAT(seen.Write().NoPods().Plan().actions,
              ElementsAre(CreatePod{Role::kWorker, 0, 1}, CreatePod{Role::kWorker, 1, 1}));
}

TEST(SuspendRuleTest, TheKubeletsRestartsAreKept) {
  Seen seen(Job("j").Workers(2).Evaluator().RestartScope(api::RestartScope::kPod).BackoffLimit(10));
  seen.Running().Worker(0, kReady).Worker(1, kReady).Pod(Role::kEvaluator, 0, kReady);
  seen.With([](Observed& observed) {
    for (ObservedPod& pod : observed.pods) pod.restart_count = 3;
  });
  const auto restart_count = seen.Plan().status.restart_count;
  const api::RestartCounts so_far = RestartsSoFar(seen.Build());
  seen.With([](Observed& observed) { observed.job.spec.suspend = true; }).Write().Write();
  const api::TrainingJobStatus& status = seen.Build().job.status;
  EXPECT_EQ(status.restarts, (api::RestartCounts{.application = 6, .evaluator = 3}));
  EXPECT_EQ(status.restart_count, restart_count);
  EXPECT_EQ(RestartsSoFar(seen.Build()), so_far) << "none of them happened now";
}

TEST(SuspendRuleTest, AResumedJobMakesAllItsReplicasAgain) {
  for (const bool independent : {false, true}) {
    auto job = Job("j").Workers(2);
    if (independent) job.Strategy(api::StrategyType::kIndependent);
    Seen seen(job);
    seen.Running().Worker(0, kReady).Worker(1, Exited(0)).Write();
    ASSERT_THAT(seen.Build().job.status.completed_indexes, ElementsAre(1));
    seen.With([](Observed& observed) { observed.job.spec.suspend = true; }).Write();
    seen.NoPods().With([](Observed& observed) { observed.job.spec.suspend = false; }).Write();
    EXPECT_THAT(seen.Plan().actions, SizeIs(independent ? 1 : 2))
        << "each counts in WORLD_SIZE, unless they have nothing to do with each other";
  }
}

TEST(SuspendRuleTest, ResultsOfVariantsAreForgottenWithTheStrategyThatHadThem) {
  const auto train_together = [](Observed& observed) {
    observed.job.spec.strategy->type = api::StrategyType::kMultiWorkerMirrored;
  };
  for (const bool edited_at_once : {false, true}) {
    Seen seen(Job("j").Workers(2).Training().Strategy(api::StrategyType::kIndependent));
    seen.Running().Worker(0, kReady).Worker(1, [](ObservedPod& pod) {
      Exited(0)(pod);
      pod.termination->results = {{.index = 1, .step = 4}};
    });
    ASSERT_THAT(seen.Write().Build().job.status.variants, SizeIs(1));
    seen.With([](Observed& observed) { observed.job.spec.suspend = true; });
    if (edited_at_once) seen.With(train_together);
    seen.Write();
    EXPECT_THAT(seen.Build().job.status.variants, SizeIs(edited_at_once ? 0 : 1));
    seen.NoPods().With(train_together);
    seen.With([](Observed& observed) { observed.job.spec.suspend = false; }).Write();
    EXPECT_THAT(seen.Build().job.status.variants, IsEmpty()) << edited_at_once;
  }
}

TEST(SuspendRuleTest, AVariantOfWhichNoResultIsKnownIsNotDone) {
  Seen seen(Job("j").Workers(4).Training().Strategy(api::StrategyType::kIndependent));
  seen.Running().Worker(0, Exited(0)).Worker(1, kReady).Worker(2, kReady).Worker(3, kReady);
  seen.Write().With([](Observed& observed) { observed.job.spec.suspend = true; });
  seen.Write().Write().NoPods().Write();
  ASSERT_THAT(seen.Build().job.status.completed_indexes, ElementsAre(0));
  ASSERT_THAT(seen.Build().job.status.variants, IsEmpty()) << "its message was lost";
  seen.With([](Observed& observed) {
    observed.job.spec.suspend = false;
    observed.job.spec.replica_specs[Role::kWorker].replicas = 2;
    observed.job.spec.strategy->processes_per_pod = 2;
  });
  EXPECT_THAT(seen.Write().Write().Build().job.status.completed_indexes, IsEmpty());
}

TEST(SuspendRuleTest, AnEditThatGivesPodsOtherVariantsForgetsThoseThatLackResults) {
  Seen seen(Job("j").Workers(8).Training().Strategy(api::StrategyType::kIndependent));
  seen.Running();
  for (int i = 0; i < 8; ++i) {
    seen.Worker(i, [i](ObservedPod& pod) {
      kReady(pod);
      if (i > 1) return;
      Exited(0)(pod);
      pod.termination->results = {{.index = i, .step = 4}};
    });
  }
  seen.Write().With([](Observed& observed) { observed.job.spec.suspend = true; });
  seen.Write().Write().NoPods().Write();
  const auto resume = [&seen](int workers, int processes) {
    Seen resumed(seen);
    resumed.With([=](Observed& observed) {
      ++observed.job.metadata.generation;
      observed.job.spec.suspend = false;
      observed.job.spec.replica_specs[Role::kWorker].replicas = workers;
      observed.job.spec.strategy->processes_per_pod = processes;
    });
    return resumed.Write().Write().Build().job.status.completed_indexes;
  };
  EXPECT_THAT(resume(8, 1), ElementsAre(0, 1));
  EXPECT_THAT(resume(4, 2), ElementsAre(0)) << "which trained the variants 0 and 1";
  EXPECT_THAT(resume(2, 4), ElementsAre());
  EXPECT_THAT(resume(2, 1), ElementsAre()) << "no other is left";
}

TEST(SuspendRuleTest, AnEditFromIndependentAndBackForgetsWhatHasCompleted) {
  for (const bool is_valid : {true, false}) {
    Seen seen(Job("j").Workers(2).Training().Strategy(api::StrategyType::kIndependent));
    seen.Running().Worker(0, kReady).Worker(1, [](ObservedPod& pod) {
      Exited(0)(pod);
      pod.termination->results = {{.index = 1, .step = 4}};
    });
    seen.Write();
    seen.With([](Observed& observed) { observed.job.spec.suspend = true; }).Write().NoPods();
    ASSERT_THAT(seen.Build().job.status.completed_indexes, ElementsAre(1));
    const auto edit = [&seen](api::StrategyType type) {
      seen.With([type](Observed& observed) { observed.job.spec.strategy->type = type; });
    };
    edit(api::StrategyType::kMultiWorkerMirrored);
    // An invalid spec may lack the strategy.
    if (!is_valid) seen.With([](Observed& observed) { observed.invalid = "spec: unreadable"; });
    seen.Write().With([](Observed& observed) { observed.invalid.reset(); });
    edit(api::StrategyType::kIndependent);
    seen.Write().With([](Observed& observed) { observed.job.spec.suspend = false; }).Write();
    EXPECT_THAT(seen.Plan().actions, SizeIs(is_valid ? 2 : 1));
  }
}

}  // namespace
}  // namespace lockstep::controller
