#include "operator/metrics/job_transition.h"

#include <gtest/gtest.h>

#include "api/v1/names.h"
#include "base/rfc3339.h"

namespace lockstep::metrics {
namespace {

using api::TrainingJob;

constexpr char kStart[] = "2026-05-01T12:00:00Z";

api::Condition Condition(const char* type, const char* since, const char* reason = "") {
  api::Condition condition;
  condition.type = type;
  condition.status = api::ConditionStatus::kTrue;
  condition.last_transition_time = *ParseRfc3339(since);
  condition.reason = reason;
  return condition;
}

TrainingJob Job(std::vector<api::Condition> conditions) {
  TrainingJob job;
  job.metadata.name = "mnist";
  job.status.conditions = std::move(conditions);
  job.status.start_time = ParseRfc3339(kStart);
  return job;
}

TEST(JobTransitionTest, AJobWithoutAStatusThatWasNotKnownIsNew) {
  const TrainingJob bare;
  EXPECT_TRUE(Compare(nullptr, bare).created);
  EXPECT_FALSE(Compare(nullptr, Job({Condition("Created", kStart)})).created);
  EXPECT_FALSE(Compare(&bare, bare).created);
}

TEST(JobTransitionTest, WhatHadHappenedBeforeTheProcessBeganIsNotCounted) {
  TrainingJob job = Job({Condition("Failed", kStart, "BackoffLimitExceeded")});
  job.status.restarts.application = 6;
  const JobTransition transition = Compare(nullptr, job);
  EXPECT_FALSE(transition.failed);
  EXPECT_EQ(transition.application_restarts, 0);
}

TEST(JobTransitionTest, AnEndIsCountedOnceWithItsReason) {
  const TrainingJob before = Job({Condition("Running", kStart)});
  const TrainingJob failed = Job({Condition("Failed", kStart, "BackoffLimitExceeded")});
  EXPECT_TRUE(Compare(&before, failed).failed);
  EXPECT_EQ(Compare(&before, failed).failure_reason, "BackoffLimitExceeded");
  EXPECT_FALSE(Compare(&failed, failed).failed);
  const TrainingJob succeeded = Job({Condition("Succeeded", kStart)});
  EXPECT_TRUE(Compare(&before, succeeded).succeeded);
  EXPECT_FALSE(Compare(&succeeded, succeeded).succeeded);
}

TEST(JobTransitionTest, RestartsAreTheDifferenceEvenIfVersionsWereMissed) {
  TrainingJob before = Job({}), after = before;
  before.status.restarts.application = 1;
  after.status.restarts = {.application = 3, .disruption = 1, .evaluator = 4};
  const JobTransition transition = Compare(&before, after);
  EXPECT_EQ(transition.application_restarts, 2);
  EXPECT_EQ(transition.disruption_restarts, 1);
  EXPECT_EQ(transition.evaluator_restarts, 4);
  EXPECT_EQ(Compare(&after, before).application_restarts, 0);
}

TEST(JobTransitionTest, TheFirstTimeThatItRunsIsMeasuredFromTheStart) {
  const TrainingJob before = Job({Condition("Created", kStart)});
  const TrainingJob running = Job({Condition("Running", "2026-05-01T12:00:07.5Z")});
  EXPECT_EQ(Compare(&before, running).seconds_to_running, 7.5);
  EXPECT_EQ(Compare(&running, running).seconds_to_running, std::nullopt);
  TrainingJob again = running;
  again.status.restart_count = 1;
  EXPECT_EQ(Compare(&before, again).seconds_to_running, std::nullopt);
}

TEST(JobTransitionTest, RecoveryIsMeasuredFromTheRestart) {
  const TrainingJob before = Job({Condition("Restarting", "2026-05-01T12:01:00Z")});
  const TrainingJob running = Job({Condition("Running", "2026-05-01T12:01:02Z")});
  EXPECT_EQ(Compare(&before, running).seconds_to_recover, 2.0);
  EXPECT_EQ(Compare(&before, running).seconds_to_running, std::nullopt);
}

TEST(JobTransitionTest, AChangeOfSizeIsNoRecovery) {
  const TrainingJob running = Job({Condition("Running", "2026-05-01T12:01:02Z")});
  for (const char* reason : {"Rescaled", "StrategyChanged"}) {
    const TrainingJob before = Job({Condition("Restarting", "2026-05-01T12:01:00Z", reason)});
    EXPECT_EQ(Compare(&before, running).seconds_to_recover, std::nullopt) << reason;
  }
}

TEST(JobTransitionTest, OnlyTheBundledTrainersExitCodeSaysThatAJobDiverged) {
  TrainingJob job = Job({Condition("Failed", kStart, "ReplicaFailed")});
  job.spec.training.emplace();
  EXPECT_EQ(DivergedAt(job), std::nullopt);
  job.status.failure = api::Failure{.exit_code = 10};
  EXPECT_EQ(DivergedAt(job), std::nullopt);
  job.status.failure->exit_code = api::kExitDiverged;
  EXPECT_EQ(DivergedAt(job), ParseRfc3339(kStart));
  job.spec.training.reset();
  EXPECT_EQ(DivergedAt(job), std::nullopt) << "another program's 20 may mean anything";
  job.spec.training.emplace();
  job.status.conditions = {Condition("Restarting", kStart)};
  EXPECT_EQ(DivergedAt(job), std::nullopt);
}

TEST(DivergedVariantsTest, ThoseThatAreDoneDoNotCount) {
  api::TrainingJob job;
  EXPECT_EQ(DivergedVariants(job), 0);
  job.status.variants = {{.index = 0, .name = "a", .diverged = true}, {.index = 1, .name = "b"}};
  EXPECT_EQ(DivergedVariants(job), 1);
}

}  // namespace
}  // namespace lockstep::metrics
