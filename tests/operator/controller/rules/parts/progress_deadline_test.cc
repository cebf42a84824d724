#include "operator/controller/rules/parts/progress_deadline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "operator/controller/rules/parts/status.h"
#include "operator/controller/rules/restart_rule.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::seconds;
using testing::Exited;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Job;
using testing::kBeingDeleted;
using testing::kReady;
using testing::PodState;
using testing::Seen;

testing::JobBuilder Limited(int workers = 2) {
  return Job("j").Workers(workers).Training().ProgressDeadlineSeconds(600).BackoffLimit(2);
}

testing::JobBuilder ElasticFromOne() {
  return Job("j")
      .Workers(2)
      .ElasticTorch(1, 4)
      .RestartScope(api::RestartScope::kPod)
      .ProgressDeadlineSeconds(600)
      .BackoffLimit(2);
}

// Its leading replica has been in the step after step 120 for that long, and all of it runs for an
// hour at least.
Seen StuckFor(std::optional<Duration> time, const testing::JobBuilder& job = Limited()) {
  Seen seen(job);
  seen.Running();
  for (int i = 0; i < job.Build().spec.replica_specs.at(Role::kWorker).replicas; ++i) {
    seen.Worker(i, [](ObservedPod& pod) {
      kReady(pod);
      pod.node = "n1";
    });
  }
  seen.Build();
  return seen.Later(std::chrono::hours(1)).With([time](Observed& observed) {
    observed.group.in_step_for = time;
    observed.progress = api::Progress{.step = 120, .total_steps = 1000};
  });
}

TEST(ProgressDeadlineTest, AJobWithoutProgressStartsAgainAsAWholeAndSaysWhy) {
  Seen seen = StuckFor(seconds(600));
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty()) << "the next plan acts";
  EXPECT_EQ(plan.status.state, "Restarting");
  EXPECT_EQ(plan.status.attempt, 1);
  EXPECT_EQ(plan.status.restarts, (api::RestartCounts{1, 0, 1}));
  const std::string why =
      "the job makes no progress: worker-0 on node n1 has finished no step since step 120 of 1000, "
      "since 2023-11-14T23:03:20Z (600 s ago; progressDeadlineSeconds is 600)";
  EXPECT_EQ(plan.status.failure, (api::Failure{.role = "worker",
                                               .index = 0,
                                               .node = "n1",
                                               .exit_code = 0,
                                               .reason = "ProgressDeadlineExceeded",
                                               .message = why}));
  const api::Condition* restarting = FindCondition(plan.status, kRestarting);
  EXPECT_EQ(restarting->reason, "ProgressDeadlineExceeded");
  EXPECT_EQ(restarting->message,
            why + "; all replicas start again (application failures: 1 of 2, disruptions: 0)");
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, "ProgressDeadlineExceeded");
  EXPECT_EQ(plan.events[0].type, PlannedEvent::Type::kWarning);
  seen.Write();
  EXPECT_EQ(seen.Plan().actions.size(), 2u) << "both pods of the attempt before are deleted";
}

Seen StuckWaitingFor(const std::vector<Straggler>& stragglers) {
  Seen seen = StuckFor(seconds(600), Limited(4));
  seen.With([&stragglers](Observed& observed) {
    observed.group.stragglers = stragglers;
    for (ObservedPod& pod : observed.pods) pod.node = "n" + std::to_string(pod.index);
  });
  return seen;
}

TEST(ProgressDeadlineTest, TheReplicaThatTheOthersWaitForIsNamed) {
  const Plan plan = StuckWaitingFor({{"worker-2", 2, "waits for its next batch"}}).Plan();
  ASSERT_TRUE(plan.status.failure);
  EXPECT_EQ(plan.status.failure->index, 2);
  EXPECT_EQ(plan.status.failure->node, "n2");
  EXPECT_THAT(plan.status.failure->message,
              HasSubstr("worker-0 on node n0 has finished no step since step 120 of 1000"));
  EXPECT_THAT(plan.status.failure->message,
              HasSubstr("; the others wait for worker-2 (rank 2), which waits for its next batch"));
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_THAT(plan.events[0].message, HasSubstr("worker-2 (rank 2)"));
}

TEST(ProgressDeadlineTest, OfSeveralNoneIsTheCause) {
  const Plan plan =
      StuckWaitingFor({{"worker-1", 1, "evaluates"}, {"worker-3", 3, "computes its gradients"}})
          .Plan();
  ASSERT_TRUE(plan.status.failure);
  EXPECT_EQ(plan.status.failure->index, 0);
  EXPECT_THAT(plan.status.failure->message,
              HasSubstr("the others wait for worker-1 (rank 1), which evaluates, and for worker-3 "
                        "(rank 3), which computes its gradients"));
}

TEST(ProgressDeadlineTest, OneThatTheJobDoesNotHaveIsNotTheCause) {
  const Plan plan = StuckWaitingFor({{"worker-9", 9, "evaluates"}}).Plan();
  ASSERT_TRUE(plan.status.failure);
  EXPECT_EQ(plan.status.failure->index, 0);
}

TEST(ProgressDeadlineTest, BeforeItHasPassedTheJobIsLookedAtAgainInTime) {
  EXPECT_EQ(UntilStalled(StuckFor(seconds(597)).Build()), seconds(3));
  EXPECT_EQ(StuckFor(seconds(597)).Plan().requeue_after, seconds(3));
  EXPECT_EQ(StuckFor(seconds(597)).Plan().status.state, "Running");
  // The next answer is due within seconds; nothing is gained by looking a thousand times before.
  EXPECT_EQ(UntilProgressDeadline(StuckFor(std::chrono::milliseconds(599'999)).Build()),
            seconds(1));
  EXPECT_FALSE(UntilProgressDeadline(StuckFor(seconds(600)).Build()));
}

TEST(ProgressDeadlineTest, AJobOfWhichNobodyKnowsTheProgressIsNotJudged) {
  EXPECT_FALSE(UntilStalled(StuckFor(std::nullopt).Build()));
  EXPECT_EQ(StuckFor(std::nullopt).Plan().status.state, "Running");
  const auto unlimited = Job("j").Workers(2).Training();
  EXPECT_EQ(StuckFor(std::chrono::hours(1), unlimited).Plan().status.state, "Running");
}

TEST(ProgressDeadlineTest, OnlyTimeInWhichAllRequiredReplicasRunCounts) {
  const std::pair<const char*, PodState> states[] = {
      {"pending", [](ObservedPod& pod) { pod.phase = PodPhase::kPending; }},
      {"being deleted", kBeingDeleted},
      {"crashing",
       [](ObservedPod& pod) {
         kReady(pod);
         pod.ready = false;
         pod.waiting_reason = "CrashLoopBackOff";
       }},
      {"on a silent node", [](ObservedPod& pod) {
         kReady(pod);
         pod.node_silent_since = Time();
       }}};
  for (const auto& [name, state] : states) {
    Seen seen = StuckFor(seconds(600));
    seen.With([&state](Observed& observed) { state(observed.pods.at(1)); });
    EXPECT_FALSE(IsComplete(seen.Build())) << name;
    EXPECT_FALSE(UntilStalled(seen.Build())) << name;
    seen.With([](Observed& observed) {
      const std::string uid = observed.pods.at(1).uid;
      observed.pods.at(1) = observed.pods.at(0);
      observed.pods.at(1).index = 1;
      observed.pods.at(1).uid = uid;
    });
    EXPECT_EQ(UntilStalled(seen.Build()), seconds(600)) << name << ": time counts anew";
  }
}

// Its own probe may be how a program tells that it hangs.
TEST(ProgressDeadlineTest, AReplicaThatIsNotReadyRuns) {
  Seen seen = StuckFor(seconds(600));
  seen.With([](Observed& observed) { observed.pods.at(1).ready = false; });
  EXPECT_EQ(seen.Plan().status.state, "Restarting");
}

TEST(ProgressDeadlineTest, AReplicaThatHasFinishedIsNotWaitedFor) {
  Seen seen = StuckFor(seconds(600), Limited(3).SuccessPolicy(api::SuccessPolicy::kAllWorkers));
  seen.With([](Observed& observed) { Exited(0)(observed.pods.at(2)); });
  EXPECT_TRUE(IsComplete(seen.Build()));
}

TEST(ProgressDeadlineTest, OptionalReplicasAreNotWaitedFor) {
  Seen elastic = StuckFor(seconds(600), ElasticFromOne());
  elastic.With([](Observed& observed) { observed.pods.at(1).phase = PodPhase::kPending; });
  EXPECT_TRUE(IsComplete(elastic.Build()));
  EXPECT_TRUE(IsComplete(StuckFor(seconds(600), Limited().Evaluator()).Build()));
  // The bundled trainer waits for every worker, whatever the minimum is.
  Seen bundled = StuckFor(seconds(600), Limited().With([](api::TrainingJob& job) {
    job.spec.elastic = api::ElasticSpec{1, 4};
  }));
  bundled.With([](Observed& observed) { observed.pods.at(1).phase = PodPhase::kPending; });
  EXPECT_FALSE(IsComplete(bundled.Build()));
}

TEST(ProgressDeadlineTest, ALostReplicaIsTheCause) {
  Seen seen = StuckFor(seconds(600));
  seen.With([](Observed& observed) { Exited(137)(observed.pods.at(1)); });
  const Plan plan = seen.Plan();
  EXPECT_EQ(plan.status.failure->index, 1);
  EXPECT_NE(plan.status.failure->reason, "ProgressDeadlineExceeded");
  EXPECT_EQ(plan.status.restarts.application, 1) << "charged once";
}

// The rest trains without it, so that the time goes on.
TEST(ProgressDeadlineTest, AnOptionalReplicaThatIsLostIsReplacedFirst) {
  Seen elastic = StuckFor(seconds(600), ElasticFromOne());
  elastic.With([](Observed& observed) { Exited(137)(observed.pods.at(1)); });
  ASSERT_EQ(UntilStalled(elastic.Build()), seconds(0));
  const Plan plan = elastic.Plan();
  EXPECT_EQ(plan.status.attempt, 0);
  EXPECT_EQ(plan.status.failure->index, 1);
}

TEST(ProgressDeadlineTest, ItIsChargedToTheBackoffLimit) {
  Seen seen = StuckFor(seconds(600));
  seen.With([](Observed& observed) { observed.job.status.restarts.application = 2; });
  const Plan plan = seen.Plan();
  EXPECT_EQ(plan.status.state, "Failed");
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "BackoffLimitExceeded");
  EXPECT_THAT(FindCondition(plan.status, kFailed)->message, HasSubstr("makes no progress"));
  EXPECT_EQ(plan.status.failure->reason, "ProgressDeadlineExceeded");
}

TEST(ProgressDeadlineTest, WhatTheKubeletHasRestartedIsChargedBeforeThePodsGo) {
  Seen seen = StuckFor(seconds(600), Limited().BackoffLimit(9));
  seen.With([](Observed& observed) { observed.pods.at(1).restart_count = 3; });
  EXPECT_EQ(seen.Plan().status.restarts.application, 4);
}

TEST(ProgressDeadlineTest, AReplicaThatIsNeverRestartedFailsTheJob) {
  const auto never = Limited().RestartPolicy(Role::kWorker, api::RestartPolicy::kNever);
  const Plan plan = StuckFor(seconds(600), never).Plan();
  EXPECT_EQ(plan.status.state, "Failed");
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "ProgressDeadlineExceeded");
  EXPECT_THAT(FindCondition(plan.status, kFailed)->message, HasSubstr("since step 120 of 1000"));
}

TEST(ProgressDeadlineTest, RulesOfTheJobDecideWhatItMeans) {
  const auto with_rule = [](api::FailureAction action, std::vector<Role> roles = {}) {
    return Limited().With([&](api::TrainingJob& job) {
      job.spec.run_policy.pod_failure_policy = api::PodFailurePolicySpec{
          {{.action = api::FailureAction::kFailJob,  // it has no exit code
            .roles = {},
            .on_exit_codes = api::ExitCodesSpec{api::ExitCodeOperator::kNotIn, {1}},
            .on_reasons = {}},
           {.action = action,
            .roles = std::move(roles),
            .on_exit_codes = std::nullopt,
            .on_reasons = {"ProgressDeadlineExceeded"}}}};
    });
  };
  const Plan free = StuckFor(seconds(600), with_rule(api::FailureAction::kIgnore)).Plan();
  EXPECT_EQ(free.status.state, "Restarting");
  EXPECT_EQ(free.status.restarts, (api::RestartCounts{0, 1, 1}));
  const Plan failed = StuckFor(seconds(600), with_rule(api::FailureAction::kFailJob)).Plan();
  EXPECT_EQ(FindCondition(failed.status, kFailed)->reason, "PodFailurePolicy");
  const auto of_servers = with_rule(api::FailureAction::kFailJob, {Role::kParameterServer});
  EXPECT_EQ(StuckFor(seconds(600), of_servers).Plan().status.restarts.application, 1)
      << "it is the leading replica's failure";
}

TEST(ProgressDeadlineTest, RestartsInARowComeEverLater) {
  Seen seen = StuckFor(seconds(600));
  seen.With([](Observed& observed) {
    observed.job.status.restarts.since_progress = 2;
    observed.job.status.progress = observed.progress;  // it was there before
  });
  const Plan plan = seen.Plan();
  EXPECT_EQ(plan.status.restarts.since_progress, 3);
  EXPECT_TRUE(plan.status.next_retry_time.has_value());
}

TEST(ProgressDeadlineTest, AJobThatIsSuspendedOrWaitsForItsLastEvaluationIsNotRestarted) {
  Seen suspended = StuckFor(seconds(600));
  suspended.With([](Observed& observed) { observed.job.spec.suspend = true; });
  EXPECT_EQ(suspended.Plan().status.restarts.application, 0);
  Seen done = StuckFor(seconds(600));
  done.With([](Observed& observed) { Exited(0)(observed.pods.at(0)); });
  EXPECT_EQ(done.Plan().status.state, "Succeeded");
}

TEST(ProgressDeadlineTest, TheFirstStepIsNamed) {
  Seen seen = StuckFor(seconds(600));
  seen.With([](Observed& observed) { observed.progress.reset(); });
  EXPECT_THAT(seen.Plan().status.failure->message,
              HasSubstr("worker-0 on node n1 has not finished its first step, since "));
}

}  // namespace
}  // namespace lockstep::controller
