#include "operator/metrics/recoveries.h"

#include <gtest/gtest.h>

namespace lockstep::metrics {
namespace {

using api::TrainingJob;

constexpr Time At(int seconds) {
  return Time{std::chrono::seconds(1'777'636'800 + seconds)};
}

TrainingJob Job(const std::string& ready, int restarts = 0, const std::string& uid = "1") {
  api::Condition running;
  running.type = "Running";
  running.status = api::ConditionStatus::kTrue;
  TrainingJob job;
  job.metadata.uid = uid;
  job.status.conditions = {running};
  job.status.ready_replicas = ready;
  job.status.restarts.application = restarts;
  return job;
}

struct RecoveriesTest : ::testing::Test {
  Recoveries recoveries{2};
  std::optional<double> Note(const TrainingJob& before, const TrainingJob& after, int seconds) {
    return recoveries.UpdateRecovery(before, after, At(seconds));
  }
};

TEST_F(RecoveriesTest, AReplacedReplicaIsMeasuredFromItsLossUntilItIsReady) {
  EXPECT_EQ(Note(Job("2/2"), Job("1/2", 1), 0), std::nullopt);
  EXPECT_EQ(Note(Job("1/2", 1), Job("1/2", 1), 5), std::nullopt);
  EXPECT_EQ(Note(Job("1/2", 1), Job("2/2", 1), 9), 9);
  EXPECT_EQ(Note(Job("1/2", 1), Job("2/2", 1), 20), std::nullopt) << "the loss has been forgotten";
}

TEST_F(RecoveriesTest, ADisruptionCountsAndAnEvaluatorsFailureDoesNot) {
  TrainingJob lost = Job("1/2"), back = Job("2/2");
  lost.status.restarts.evaluator = back.status.restarts.evaluator = 1;
  EXPECT_EQ(Note(Job("2/2"), lost, 0), std::nullopt);
  EXPECT_EQ(Note(lost, back, 9), std::nullopt);
  lost.status.restarts.disruption = back.status.restarts.disruption = 1;
  EXPECT_EQ(Note(Job("2/2"), lost, 10), std::nullopt);
  EXPECT_EQ(Note(lost, back, 13), 3);
}

TEST_F(RecoveriesTest, AReplicaMayStopBeingReadyBeforeItsLossIsCharged) {
  EXPECT_EQ(Note(Job("2/2"), Job("1/2"), 0), std::nullopt);
  EXPECT_EQ(Note(Job("1/2"), Job("1/2", 1), 4), std::nullopt);
  EXPECT_EQ(Note(Job("1/2", 1), Job("2/2", 1), 9), 5);
}

TEST_F(RecoveriesTest, AFurtherLossProlongsTheFirst) {
  Note(Job("3/3"), Job("2/3", 1), 0);
  Note(Job("2/3", 1), Job("1/3", 2), 4);
  EXPECT_EQ(Note(Job("1/3", 2), Job("2/3", 2), 6), std::nullopt);
  EXPECT_EQ(Note(Job("2/3", 2), Job("3/3", 2), 9), 9);
}

TEST_F(RecoveriesTest, AnElasticJobNeedsNoMoreReplicasThanItHad) {
  Note(Job("2/4"), Job("1/4", 1), 0);
  EXPECT_EQ(Note(Job("1/4", 1), Job("2/4", 1), 7), 7);
}

TEST_F(RecoveriesTest, AnEditThatTakesReplicasAwayIsNeitherALossNorARecovery) {
  // The edit takes away the replica that was lost.
  Note(Job("2/2"), Job("1/2", 1), 0);
  EXPECT_EQ(Note(Job("1/2", 1), Job("1/1", 1), 5), std::nullopt);
  Note(Job("1/1", 1), Job("0/1", 2), 36000);
  EXPECT_EQ(Note(Job("0/1", 2), Job("1/1", 2), 36007), 7);
  // The replica that is taken away had been restarted by its kubelet, which is charged only now.
  EXPECT_EQ(Note(Job("4/4", 2), Job("3/3", 4), 40000), std::nullopt);
  EXPECT_EQ(Note(Job("3/4", 4), Job("4/4", 4), 76000), std::nullopt);
}

TEST_F(RecoveriesTest, WhatEndsOrStartsAgainAsAWholeRecoversFromNothing) {
  TrainingJob restarting = Job("0/2", 1);
  restarting.status.conditions.clear();
  Note(Job("2/2"), Job("1/2", 1), 0);
  EXPECT_EQ(Note(Job("1/2", 1), restarting, 3), std::nullopt);
  EXPECT_EQ(Note(restarting, Job("2/2", 1), 5), std::nullopt);
}

TEST_F(RecoveriesTest, ALossThatWasMadeGoodInAMissedVersionIsForgotten) {
  EXPECT_EQ(Note(Job("2/2"), Job("2/2", 1), 0), std::nullopt);
  EXPECT_EQ(Note(Job("1/2", 1), Job("2/2", 1), 100), std::nullopt);
}

TEST_F(RecoveriesTest, OfTooManyTheOldestIsForgotten) {
  for (int i = 0; i < 3; ++i) {
    const std::string uid = std::to_string(i);
    Note(Job("2/2", 0, uid), Job("1/2", 1, uid), i);
  }
  EXPECT_EQ(Note(Job("1/2", 1, "0"), Job("2/2", 1, "0"), 10), std::nullopt);
  EXPECT_EQ(Note(Job("1/2", 1, "2"), Job("2/2", 1, "2"), 10), 8);
}

TEST_F(RecoveriesTest, TextsThatOthersWroteDoNoHarm) {
  for (const char* text : {"", "/", "x/2", "2", "99999999999/1", "-1/2"}) {
    Note(Job(text), Job(text, 1), 0);
    EXPECT_EQ(Note(Job(text, 1), Job("", 1), 1), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep::metrics
