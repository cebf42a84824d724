#include "operator/metrics/job_transition.h"

#include <gtest/gtest.h>

namespace lockstep::metrics {
namespace {

using kube::Object;

constexpr char kStart[] = "2026-05-01T12:00:00Z";

Object Condition(const char* type, const char* since, const char* reason = "") {
  return {{"type", type}, {"status", "True"}, {"lastTransitionTime", since}, {"reason", reason}};
}

Object Job(Object conditions) {
  return {{"metadata", {{"name", "mnist"}}},
          {"status", {{"conditions", std::move(conditions)}, {"startTime", kStart}}}};
}

TEST(JobTransitionTest, AJobWithoutAStatusThatWasNotKnownIsNew) {
  EXPECT_TRUE(Compare(nullptr, {{"metadata", {{"name", "mnist"}}}}).created);
  EXPECT_FALSE(Compare(nullptr, Job({Condition("Created", kStart)})).created);
  const Object bare = {{"metadata", {{"name", "mnist"}}}};
  EXPECT_FALSE(Compare(&bare, bare).created);
}

TEST(JobTransitionTest, WhatHadHappenedBeforeTheProcessBeganIsNotCounted) {
  Object job = Job({Condition("Failed", kStart, "BackoffLimitExceeded")});
  job["status"]["restarts"] = {{"application", 6}};
  const JobTransition transition = Compare(nullptr, job);
  EXPECT_FALSE(transition.failed);
  EXPECT_EQ(transition.application_restarts, 0);
}

TEST(JobTransitionTest, AnEndIsCountedOnceWithItsReason) {
  const Object before = Job({Condition("Running", kStart)});
  const Object failed = Job({Condition("Failed", kStart, "BackoffLimitExceeded")});
  EXPECT_TRUE(Compare(&before, failed).failed);
  EXPECT_EQ(Compare(&before, failed).failure_reason, "BackoffLimitExceeded");
  EXPECT_FALSE(Compare(&failed, failed).failed);
  const Object succeeded = Job({Condition("Succeeded", kStart)});
  EXPECT_TRUE(Compare(&before, succeeded).succeeded);
  EXPECT_FALSE(Compare(&succeeded, succeeded).succeeded);
}

TEST(JobTransitionTest, RestartsAreTheDifferenceEvenIfVersionsWereMissed) {
  Object before = Job(Object::array()), after = before;
  before["status"]["restarts"] = {{"application", 1}};
  after["status"]["restarts"] = {{"application", 3}, {"disruption", 1}};
  const JobTransition transition = Compare(&before, after);
  EXPECT_EQ(transition.application_restarts, 2);
  EXPECT_EQ(transition.disruption_restarts, 1);
  EXPECT_EQ(Compare(&after, before).application_restarts, 0);
}

TEST(JobTransitionTest, TheFirstTimeThatItRunsIsMeasuredFromTheStart) {
  const Object before = Job({Condition("Created", kStart)});
  const Object running = Job({Condition("Running", "2026-05-01T12:00:07.5Z")});
  EXPECT_EQ(Compare(&before, running).seconds_to_running, 7.5);
  EXPECT_EQ(Compare(&running, running).seconds_to_running, std::nullopt);
  Object again = running;
  again["status"]["restartCount"] = 1;
  EXPECT_EQ(Compare(&before, again).seconds_to_running, std::nullopt);
}

TEST(JobTransitionTest, RecoveryIsMeasuredFromTheRestart) {
  const Object before = Job({Condition("Restarting", "2026-05-01T12:01:00Z")});
  const Object running = Job({Condition("Running", "2026-05-01T12:01:02Z")});
  EXPECT_EQ(Compare(&before, running).seconds_to_recover, 2.0);
  EXPECT_EQ(Compare(&before, running).seconds_to_running, std::nullopt);
}

TEST(JobTransitionTest, MembersOfAWrongTypeAreLeftAlone) {
  const Object wrong[] = {{{"status", "gone"}},
                          {{"status", {{"conditions", {"Running", 3}}, {"restarts", {1}}}}},
                          {{"status", {{"conditions", {{"Failed", true}}}, {"state", 7}}}},
                          Object::array()};
  for (const Object& before : wrong) {
    for (const Object& after : wrong) {
      EXPECT_FALSE(Compare(&before, after).failed);
      EXPECT_EQ(StateOf(after), "Created");
    }
  }
}

}  // namespace
}  // namespace lockstep::metrics
