#include "operator/controller/rules/parts/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::Exited;
using testing::Job;
using testing::kPending;
using testing::kReady;
using testing::Seen;

TEST(StatusTest, CountsReplicasByRole) {
  const auto status = BaseStatus(Seen(Job("j").Workers(4).ParameterServers(1))
                                     .Worker(0, kReady)
                                     .Worker(1, Exited(0))
                                     .Worker(2, Exited(1))
                                     .Worker(3, kPending)
                                     .Pod(Role::kParameterServer, 0, kReady)
                                     .Build());
  EXPECT_EQ(
      status.replica_statuses.at(Role::kWorker),
      (api::ReplicaStatus{.desired = 4, .active = 2, .ready = 1, .succeeded = 1, .failed = 1}));
  EXPECT_EQ(status.ready_replicas, "3/5");
  EXPECT_EQ(status.selector, "training.lockstep.dev/job-name=j,training.lockstep.dev/role=worker");
}

// An Independent job was suspended and resumed since.
TEST(StatusTest, AWorkerThatCompletedInAnEarlierAttemptIsCountedWithoutItsPod) {
  const auto status = BaseStatus(
      Seen(Job("j").Workers(3).Strategy(api::StrategyType::kIndependent))
          .Worker(1, kReady)
          .Worker(2, Exited(0))
          .With([](Observed& observed) { observed.job.status.completed_indexes = {0, 2}; })
          .Build());
  EXPECT_EQ(status.replica_statuses.at(Role::kWorker),
            (api::ReplicaStatus{.desired = 3, .active = 1, .ready = 1, .succeeded = 2}));
  EXPECT_EQ(status.ready_replicas, "3/3");
}

TEST(StatusTest, APodThatIsToGoIsNeitherActiveNorReady) {
  Seen seen(Job("j").Workers(2));
  seen.Worker(0, kReady).Worker(1, kReady);
  seen.With([](Observed& observed) { observed.job.status.counted_pods = {"j-worker-1-uid"}; });
  const api::TrainingJobStatus status = BaseStatus(seen.Build());
  EXPECT_EQ(status.replica_statuses.at(Role::kWorker).active, 1);
  EXPECT_EQ(status.replica_statuses.at(Role::kWorker).ready, 1);
  EXPECT_EQ(status.ready_replicas, "1/2");
}

TEST(StatusTest, PodsOfOtherAttemptsAreNotCounted) {
  Seen seen(Job("j").Workers(1));
  seen.Worker(0, kReady).With([](Observed& observed) { observed.pods[0].attempt = 7; });
  EXPECT_EQ(BaseStatus(seen.Build()).ready_replicas, "0/1");
}

TEST(StatusTest, ATransitionTimeChangesOnlyWithTheStatus) {
  Seen seen(Job("j").Workers(1));
  api::TrainingJobStatus status;
  SetCondition(seen.Build(), status, kRunning, false, "A", "a");
  const Time first = FindCondition(status, kRunning)->last_transition_time;
  SetCondition(seen.Later(seconds(5)).Build(), status, kRunning, false, "B", "b");
  EXPECT_EQ(FindCondition(status, kRunning)->last_transition_time, first);
  EXPECT_EQ(FindCondition(status, kRunning)->reason, "B");
  SetCondition(seen.Build(), status, kRunning, true, "C", "c");
  EXPECT_EQ(FindCondition(status, kRunning)->last_transition_time, first + seconds(5));
}

TEST(StatusTest, AValueThatJsonCannotHoldIsLeftOut) {
  const auto status = BaseStatus(Seen(Job("j").Workers(1).Training())
                                     .With([](Observed& observed) {
                                       observed.progress.emplace().step = 5;
                                       observed.progress->loss = std::nan("");
                                       observed.progress->accuracy = 0.5;
                                       observed.progress->examples_per_second =
                                           std::numeric_limits<double>::infinity();
                                     })
                                     .Build());
  EXPECT_FALSE(status.progress->loss);
  EXPECT_EQ(status.progress->accuracy, 0.5);
  EXPECT_EQ(status.progress->examples_per_second, 0);
}

// What the leading pod has heard from the Evaluator, what it has not, and the Evaluator's last
// words.
TEST(StatusTest, TheEvaluatorsNumbersStandUntilItHasNewOnes) {
  Seen seen(Job("j").Workers(1).Evaluator().Training());
  seen.Worker(0, kReady).Pod(Role::kEvaluator, 0, kReady).With([](Observed& observed) {
    observed.progress = api::Progress{.step = 5, .test_accuracy = 0.5, .test_loss = 2};
  });
  seen.Write();
  seen.With([](Observed& observed) { observed.progress = api::Progress{.step = 6}; });
  EXPECT_EQ(BaseStatus(seen.Build()).progress->step, 6);
  EXPECT_EQ(BaseStatus(seen.Build()).progress->test_accuracy, 0.5)
      << "a new leading pod knows none";
  EXPECT_EQ(BaseStatus(seen.Build()).progress->test_loss, 2);
  seen.Write();
  seen.With([](Observed& observed) { observed.progress->test_accuracy = 0.6; });
  EXPECT_EQ(BaseStatus(seen.Build()).progress->test_accuracy, 0.6);
  seen.NoPods()
      .Worker(0, Exited(0))
      .Pod(Role::kEvaluator, 0, Exited(0))
      .With([](Observed& observed) {
        for (ObservedPod& pod : observed.pods) {
          if (pod.role != Role::kEvaluator) continue;
          pod.termination->progress =
              api::Progress{.step = 9, .test_accuracy = 0.9, .test_loss = 1};
        }
      });
  EXPECT_EQ(BaseStatus(seen.Build()).progress->step, 6) << "the training's";
  EXPECT_EQ(BaseStatus(seen.Build()).progress->test_accuracy, 0.9);
  EXPECT_EQ(BaseStatus(seen.Build()).progress->test_loss, 1);
}

TEST(StatusTest, TheErrorOfAnEvaluatorsRegressionStandsToo) {
  Seen seen(Job("j").Workers(1).Evaluator().Training());
  seen.Worker(0, kReady).Pod(Role::kEvaluator, 0, kReady).With([](Observed& observed) {
    observed.job.status.progress = api::Progress{.step = 5, .test_mean_absolute_error = 0.5};
    observed.progress = api::Progress{.step = 6};
  });
  EXPECT_EQ(BaseStatus(seen.Build()).progress->test_mean_absolute_error, 0.5);
  seen.With([](Observed& observed) { observed.progress->test_mean_absolute_error = 0.25; });
  EXPECT_EQ(BaseStatus(seen.Build()).progress->test_mean_absolute_error, 0.25);
}

TEST(StatusTest, NamedMetricsOfAnEvaluatorStandToo) {
  const api::TestMetrics before = {{api::TestMetric::kAuc, 0.5}};
  Seen seen(Job("j").Workers(1).Evaluator().Training());
  seen.Worker(0, kReady).Pod(Role::kEvaluator, 0, kReady).With([&](Observed& observed) {
    observed.job.status.progress = api::Progress{.step = 5, .test_metrics = before};
    observed.progress = api::Progress{.step = 6};
  });
  EXPECT_EQ(BaseStatus(seen.Build()).progress->test_metrics, before);
  seen.With([](Observed& observed) { observed.progress->test_loss = 0.25; });
  EXPECT_TRUE(BaseStatus(seen.Build()).progress->test_metrics.empty()) << "of another evaluation";
}

TEST(StatusTest, AnEvaluationWithoutANumberReplacesTheOneBefore) {
  Seen seen(Job("j").Workers(1).Evaluator().Training());
  seen.Worker(0, kReady).Pod(Role::kEvaluator, 0, kReady).With([](Observed& observed) {
    observed.job.status.progress = api::Progress{.step = 5, .test_mean_absolute_error = 0.5};
    observed.progress = api::Progress{.step = 6, .test_mean_absolute_error = std::nan("")};
  });
  EXPECT_FALSE(BaseStatus(seen.Build()).progress->test_mean_absolute_error);
}

TEST(StatusTest, WithoutAnEvaluatorOldNumbersDoNotStand) {
  Seen seen(Job("j").Workers(1).Training());
  seen.With([](Observed& observed) {
    observed.job.status.progress = api::Progress{.step = 5, .test_accuracy = 0.5};
    observed.progress = api::Progress{.step = 6};
  });
  EXPECT_FALSE(BaseStatus(seen.Build()).progress->test_accuracy);
}

TEST(StatusTest, AStepOfProgressResetsTheBackOff) {
  Seen seen(Job("j").Workers(1).Training());
  seen.With([](Observed& observed) {
    observed.job.status.restarts.since_progress = 3;
    observed.job.status.progress.emplace().step = 10;
    observed.progress.emplace().step = 10;
  });
  EXPECT_EQ(BaseStatus(seen.Build()).restarts.since_progress, 3);
  seen.With([](Observed& observed) { observed.progress->step = 11; });
  EXPECT_EQ(BaseStatus(seen.Build()).restarts.since_progress, 0);
}

TEST(StatusTest, AStatusSurvivesJson) {
  Seen seen(Job("j").Workers(2).RestartScope(api::RestartScope::kInPlace));
  const auto job = seen.Running().Worker(0, kReady).Worker(1, Exited(137)).Write().Build().job;
  EXPECT_THAT(job.status.counted_pods, ElementsAre("j-worker-1-uid"));
  const auto back = api::TrainingJobFromJson(api::TrainingJobToJson(job));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->status, job.status);
}

TEST(StatusTest, OnlyCountsMayWait) {
  const auto status = Seen(Job("j").Workers(2)).Running().Build().job.status;
  api::TrainingJobStatus counts = status;
  counts.ready_replicas = "1/2";
  counts.progress.emplace().step = 3;
  counts.conditions.back().message = "other words";
  EXPECT_TRUE(DiffersOnlyInCounts(counts, status));
  api::TrainingJobStatus charged = status;
  charged.counted_pods = {"x"};
  EXPECT_FALSE(DiffersOnlyInCounts(charged, status));
  EXPECT_TRUE(DiffersOnlyInCounts(status, charged));  // forgetting may wait
  api::TrainingJobStatus grown = status, shrunk = status;
  grown.group_workers = 3;
  shrunk.group_workers = 2;
  EXPECT_FALSE(DiffersOnlyInCounts(shrunk, status));
  EXPECT_FALSE(DiffersOnlyInCounts(shrunk, grown));
  EXPECT_TRUE(DiffersOnlyInCounts(grown, shrunk));
  api::TrainingJobStatus attempt = status;
  ++attempt.attempt;
  EXPECT_FALSE(DiffersOnlyInCounts(attempt, status));
}

TEST(StatusTest, AMessageIsNoLongerThanTheServerTakesAndStaysText) {
  const Observed seen = Seen(Job("j").Workers(1)).Build();
  api::TrainingJobStatus status;
  std::string faults;
  while (faults.size() < 100'000) faults += "ä";  // two bytes each
  SetCondition(seen, status, kFailed, true, "InvalidSpec", "x" + faults);
  const std::string& message = status.conditions[0].message;
  EXPECT_LE(message.size(), 16'400U);
  EXPECT_NO_THROW((void)api::Json(message).dump());
  EXPECT_TRUE(message.ends_with("ä …"));
}

}  // namespace
}  // namespace lockstep::controller
