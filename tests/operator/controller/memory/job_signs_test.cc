#include "operator/controller/memory/job_signs.h"

#include <gtest/gtest.h>

#include "operator/controller/rules/parts/attempt.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using testing::Job;
using testing::kReady;
using testing::Seen;

constexpr Time kStart{std::chrono::seconds(1'700'000'000)};

TEST(JobSignsTest, AShortageBeginsAnewAfterItWasOver) {
  JobSigns signs;
  EXPECT_EQ(signs.short_since(), std::nullopt);
  signs.Update(true, {}, kStart);
  signs.Update(true, {}, kStart + std::chrono::hours(1));
  EXPECT_EQ(signs.short_since(), kStart);
  signs.Update(false, {}, kStart + std::chrono::hours(2));
  EXPECT_EQ(signs.short_since(), std::nullopt);
  signs.Update(true, {}, kStart + std::chrono::hours(3));
  EXPECT_EQ(signs.short_since(), kStart + std::chrono::hours(3));
}

TEST(JobSignsTest, RestartsNeverBecomeFewer) {
  JobSigns signs;
  signs.Update(false, {.application = 5, .disruption = 1}, kStart);
  signs.Update(false, {.application = 2, .disruption = 1}, kStart);
  EXPECT_EQ(signs.restarts(), (api::RestartCounts{.application = 5, .disruption = 1}));
  signs.Update(false, {.application = 3, .disruption = 2, .evaluator = 1}, kStart);
  EXPECT_EQ(signs.restarts(),
            (api::RestartCounts{.application = 6, .disruption = 2, .evaluator = 1}));
}

// The status counts a kubelet's restarts only once their pod is lost, and weeks may have passed.
TEST(JobSignsTest, WhatTheStatusCountsLaterHappensOnce) {
  Seen seen(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).BackoffLimit(10));
  seen.Running().Worker(0, kReady).Worker(1, kReady);
  EXPECT_EQ(RestartsSoFar(seen.Build()), api::RestartCounts{});
  seen.With([](Observed& observed) { observed.pods[1].restart_count = 4; });
  EXPECT_EQ(RestartsSoFar(seen.Build()).application, 4) << "they count when they happen";
  seen.With(
      [](Observed& observed) { observed.job.spec.replica_specs[api::Role::kWorker].replicas = 1; });
  seen.Write();
  ASSERT_EQ(seen.Build().job.status.restarts.application, 4);
  EXPECT_EQ(RestartsSoFar(seen.Build()).application, 4);
  EXPECT_EQ(RestartsSoFar(seen.NoPods().Worker(0, kReady).Build()).application, 4);
}

}  // namespace
}  // namespace lockstep::controller
