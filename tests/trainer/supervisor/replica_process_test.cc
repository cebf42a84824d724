#include "trainer/supervisor/replica_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep::train {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

class ReplicaLaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(unsetenv("OMP_WAIT_POLICY"), 0);
    ASSERT_EQ(unsetenv("GOMP_SPINCOUNT"), 0);
  }
  void TearDown() override { SetUp(); }

  static Environment EnvironmentOf(api::Role role) {
    Identity identity;
    identity.role = role;
    return ReplicaLaunch(identity, {.command = {"trainer"}}, 7).env;
  }
};

TEST_F(ReplicaLaunchTest, IdleThreadsSpinForLessThanAMillisecond) {
  EXPECT_THAT(EnvironmentOf(api::Role::kWorker), Contains(Pair("GOMP_SPINCOUNT", "10000")));
  EXPECT_THAT(EnvironmentOf(api::Role::kWorker), Not(Contains(Key("OMP_WAIT_POLICY"))));
}

TEST_F(ReplicaLaunchTest, IdleThreadsOfAServerSleep) {
  EXPECT_THAT(EnvironmentOf(api::Role::kParameterServer),
              Contains(Pair("OMP_WAIT_POLICY", "PASSIVE")));
  EXPECT_THAT(EnvironmentOf(api::Role::kParameterServer), Not(Contains(Key("GOMP_SPINCOUNT"))));
}

TEST_F(ReplicaLaunchTest, WhatTheContainerSaysOfSpinningStays) {
  ASSERT_EQ(setenv("GOMP_SPINCOUNT", "5", 1), 0);
  EXPECT_THAT(EnvironmentOf(api::Role::kWorker), Contains(Pair("GOMP_SPINCOUNT", "5")));
  ASSERT_EQ(unsetenv("GOMP_SPINCOUNT"), 0);
  ASSERT_EQ(setenv("OMP_WAIT_POLICY", "ACTIVE", 1), 0);
  for (const api::Role role : {api::Role::kWorker, api::Role::kParameterServer}) {
    EXPECT_THAT(EnvironmentOf(role), Contains(Pair("OMP_WAIT_POLICY", "ACTIVE")));
    EXPECT_THAT(EnvironmentOf(role), Not(Contains(Key("GOMP_SPINCOUNT"))));
  }
}

}  // namespace
}  // namespace lockstep::train
