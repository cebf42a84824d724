#include "operator/cli/top/rank_metrics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(RankMetricsTest, EachRankHasItsNumbers) {
  const auto ranks = ParseRankMetrics(
      "# HELP lockstep_trainer_step Steps done since the job began.\n"
      "# TYPE lockstep_trainer_step gauge\n"
      "lockstep_trainer_step{rank=\"3\"} 12\n"
      "lockstep_trainer_step{rank=\"2\"} 11\n"
      "lockstep_trainer_total_steps{rank=\"2\"} 100\n"
      "lockstep_trainer_world_size{rank=\"2\"} 4\n"
      "lockstep_trainer_stage{rank=\"2\"} 1\n"
      "lockstep_trainer_steps_total{rank=\"2\"} 9\n"
      "lockstep_trainer_loss{rank=\"2\"} 0.25\n"
      "lockstep_trainer_loss{rank=\"3\"} Nan\n"
      "lockstep_trainer_remaining_seconds{rank=\"2\"} 1.5e+2\n"
      "lockstep_trainer_examples_per_second{rank=\"2\"} 640\n"
      "lockstep_trainer_time_seconds_total{rank=\"2\",phase=\"compute\"} 2.5\n"
      "lockstep_trainer_time_seconds_total{phase=\"idle\",rank=\"2\"} 0.5\n"
      "lockstep_trainer_step_duration_seconds_bucket{rank=\"2\",le=\"+Inf\"} 9",
      2);
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0].rank, 2);
  EXPECT_EQ(ranks[0].step, 11);
  EXPECT_EQ(ranks[0].total_steps, 100);
  EXPECT_EQ(ranks[0].world, 4);
  EXPECT_EQ(ranks[0].stage, 1);
  EXPECT_EQ(ranks[0].steps_done, 9);
  EXPECT_EQ(ranks[0].loss, 0.25);
  EXPECT_EQ(ranks[0].remaining_seconds, 150);
  EXPECT_EQ(ranks[0].examples_per_second, 640);
  EXPECT_EQ(ranks[0].seconds, (PhaseSeconds{0, 2.5, 0, 0, 0, 0, 0, 0, 0.5}));
  EXPECT_EQ(ranks[1].rank, 3);
  EXPECT_FALSE(ranks[1].loss);
}

TEST(RankMetricsTest, WhatAPodMayNotServeIsPassedOver) {
  std::string text =
      "lockstep_trainer_step{rank=\"-1\"} 1\n"
      "lockstep_trainer_step{rank=\"1x\"} 1\n"
      "lockstep_trainer_step{rank=\"99999999999\"} 1\n"
      "lockstep_trainer_step{rank=\"1\n"
      "lockstep_trainer_step} 1{\n"
      "lockstep_trainer_step 1\n"
      "lockstep_trainer_step{rank=\"0\"} -5\n"
      "lockstep_trainer_world_size{rank=\"0\"} 1e300\n"
      "lockstep_trainer_time_seconds_total{rank=\"0\",phase=\"sleep\"} 4\n"
      "\xff\n";
  const auto ranks = ParseRankMetrics(text, 2);
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0].step, 0);
  EXPECT_EQ(ranks[0].world, 0);
  EXPECT_EQ(ranks[0].seconds, PhaseSeconds{});
  for (int i = 0; i < 3000; ++i) text += fmt::format("lockstep_trainer_step{{rank=\"{}\"}} 1\n", i);
  EXPECT_EQ(ParseRankMetrics(text, 8).size(), 8u);
}

}  // namespace
}  // namespace lockstep::cli
