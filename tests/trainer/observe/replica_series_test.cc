#include "trainer/observe/replica_series.h"

#include <gtest/gtest.h>

#include <string_view>

namespace lockstep::train {
namespace {

double Value(const ReplicaSeries& series, std::string_view name, std::string_view phase = "") {
  const auto rows = SeriesRows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name == name && phase == (rows[i].phase ? rows[i].phase : ""))
      return series.value(i);
  }
  ADD_FAILURE() << "no row " << name << " " << phase;
  return 0;
}

double Phase(const ReplicaSeries& series, std::string_view phase) {
  return Value(series, "lockstep_trainer_time_seconds_total", phase);
}

// A process that began at step `first` and has done `steps`, each of 1 s of computing and 0.5 s of
// input, after `checkpoint` seconds of saving.
ReplicaMetrics Process(std::int64_t first, std::int64_t steps, double checkpoint = 0) {
  ReplicaMetrics metrics;
  metrics.step = first + steps;
  metrics.steps_total = steps;
  metrics.first_step = first;
  metrics.compute_seconds = static_cast<double>(steps);
  metrics.input_seconds = 0.5 * static_cast<double>(steps);
  metrics.checkpoint_seconds = checkpoint;
  return metrics;
}

TEST(ReplicaSeriesTest, StepsOfAFirstProcessAreNoRework) {
  ReplicaSeries series;
  series.Update(Process(500, 10));  // its group gave it step 500
  series.Update(Process(500, 40));
  EXPECT_EQ(Phase(series, "compute"), 40);
  EXPECT_EQ(Phase(series, "rework"), 0);
}

TEST(ReplicaSeriesTest, StepsDoneAgainAfterACheckpointAreRework) {
  ReplicaSeries series;
  series.Update(Process(0, 100));
  series.CountRestart();
  series.Update(Process(80, 10, /*checkpoint=*/2));  // up to step 90: all of it again
  EXPECT_EQ(Phase(series, "rework"), 15);
  EXPECT_EQ(Phase(series, "compute"), 100);
  EXPECT_EQ(Phase(series, "input"), 50);
  EXPECT_EQ(Phase(series, "checkpoint"), 2);
  series.Update(Process(80, 30, 2));  // up to step 110: half of these 20
  EXPECT_EQ(Phase(series, "rework"), 30);
  EXPECT_EQ(Phase(series, "compute"), 110);
}

TEST(ReplicaSeriesTest, AProcessThatGoesOnFromItsPeersMemoryDoesNoRework) {
  ReplicaSeries series;
  series.Update(Process(0, 100));
  series.CountRestart();
  series.Update(Process(103, 5));
  EXPECT_EQ(Phase(series, "rework"), 0);
}

// Numbers come every second, whether or not a step has been completed since.
TEST(ReplicaSeriesTest, AStepUnderWayThatHadBeenDoneIsReworkToo) {
  ReplicaSeries series;
  series.Update(Process(0, 100));
  series.CountRestart();
  ReplicaMetrics again = Process(80, 0);
  again.compute_seconds = 1;  // of step 81
  series.Update(again);
  EXPECT_EQ(Phase(series, "rework"), 1);
  EXPECT_EQ(Phase(series, "compute"), 100);
  series.Update(Process(80, 20));
  EXPECT_EQ(Phase(series, "rework"), 30);
  ReplicaMetrics next = Process(80, 20);
  next.compute_seconds = 21;  // of step 101
  series.Update(next);
  EXPECT_EQ(Phase(series, "rework"), 30);
  EXPECT_EQ(Phase(series, "compute"), 101);
}

TEST(ReplicaSeriesTest, StepsAfterALoadOfOlderValuesAreReworkWithoutARestart) {
  ReplicaSeries series;
  series.Update(Process(0, 100));
  ReplicaMetrics loaded = Process(0, 110);  // ten more, of which the last is step 90
  loaded.first_step = 80;
  loaded.step = 90;
  series.Update(loaded);
  EXPECT_EQ(Phase(series, "rework"), 15);
  EXPECT_EQ(Phase(series, "compute"), 100);
}

// With parameter servers, a process may do several parts of a step, or batches of later steps while
// another process is at an earlier one.
TEST(ReplicaSeriesTest, MoreBatchesThanStepsAreNoRework) {
  ReplicaSeries series;
  const auto update = [&](std::int64_t batches, std::int64_t step) {
    ReplicaMetrics metrics = Process(0, batches);
    metrics.step = step;
    series.Update(metrics);
  };
  for (const std::int64_t step : {1, 2, 3}) update(2 * step, step);
  update(8, 3);
  EXPECT_EQ(Phase(series, "rework"), 0);
  EXPECT_EQ(Phase(series, "compute"), 8);
}

TEST(ReplicaSeriesTest, AProcessWithoutValuesDoesNoRework) {
  ReplicaSeries series;
  series.Update(Process(0, 100));
  series.CountRestart();
  ReplicaMetrics joined;
  joined.communication_seconds = 3;
  series.Update(joined);
  EXPECT_EQ(Phase(series, "communication"), 3);
  series.Update(Process(105, 1));
  EXPECT_EQ(Phase(series, "rework"), 0);
}

// A stalled job whose replicas start again would else seem to make steps.
TEST(ReplicaSeriesTest, WhatIsKnownOfTheRunStaysUntilANewProcessHasJoinedIt) {
  ReplicaSeries series;
  ReplicaMetrics metrics = Process(0, 100);
  metrics.generations = 1;
  series.Update(metrics);
  series.CountRestart();
  ReplicaMetrics fresh;
  fresh.idle_seconds = 3;
  series.Update(fresh);
  EXPECT_EQ(Value(series, "lockstep_trainer_step"), 100);
  EXPECT_EQ(Phase(series, "idle"), 3);
  fresh.step = 80;
  fresh.generations = 1;
  series.Update(fresh);
  EXPECT_EQ(Value(series, "lockstep_trainer_step"), 80);
  // Executed anew in its pod, for a group of another size: that is no restart.
  series.Update(ReplicaMetrics{});
  EXPECT_EQ(Value(series, "lockstep_trainer_step"), 80);
}

TEST(ReplicaSeriesTest, StateOfTheWholeJobIsNotCountedAgainByANewProcess) {
  ReplicaSeries series;
  ReplicaMetrics metrics;
  metrics.samples_lost = 3;
  series.Update(metrics);
  series.CountRestart();
  series.Update(metrics);  // restored, not lost again
  EXPECT_EQ(Value(series, "lockstep_trainer_samples_lost"), 3);
}

TEST(ReplicaSeriesTest, StepDurationsGoOnWhenAReplicaStartsAgain) {
  ReplicaSeries series;
  ReplicaMetrics metrics;
  metrics.step_seconds.Observe(0.02);
  metrics.step_seconds.Observe(1000);
  series.Update(metrics);
  series.CountRestart();
  ReplicaMetrics next;
  next.step_seconds.Observe(0.02);
  series.Update(next);
  const DurationHistogram& steps = series.histogram(0);
  EXPECT_EQ(steps.counts[4], 2);
  EXPECT_EQ(steps.counts.back(), 1);
  EXPECT_NEAR(steps.sum, 1000.04, 1e-9);
  EXPECT_EQ(series.histogram(1).count(), 0);
}

}  // namespace
}  // namespace lockstep::train
