// The metrics of one replica, accumulated over all of its processes, as its pod serves them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/observe/metrics.h"

namespace lockstep::train {

// One time series. Rows with the same name are adjacent and form one family.
struct SeriesRow {
  const char* name;
  const char* help;
  bool is_counter;    // otherwise a gauge
  const char* phase;  // label of lockstep_trainer_time_seconds_total; null for other rows
  double (*value)(const ReplicaMetrics&);
};
std::span<const SeriesRow> SeriesRows();

// Histograms of the leading rank: all ranks step together, and it alone saves. 19 series for every
// rank would be too many.
struct HistogramRow {
  const char* name;
  const char* help;
  DurationHistogram ReplicaMetrics::* value;
};
std::span<const HistogramRow> HistogramRows();

// Not thread-safe.
class ReplicaSeries {
 public:
  ReplicaSeries();
  // Adds a process's totals. Each process counts from 0, so a total that decreased is from a new
  // process. Time for steps that this replica had reached before its values were loaded (training
  // resumes from an older checkpoint) counts as phase `rework` instead of the phases of a step.
  void Update(const ReplicaMetrics& metrics);
  // Declares that later updates are from a new process.
  void CountRestart();

  const std::string& rank() const { return rank_; }
  bool has_values() const { return has_values_; }
  double value(std::size_t row) const { return values_[row]; }
  const api::TestMetrics& test_metrics() const { return test_metrics_; }
  const DurationHistogram& histogram(std::size_t row) const { return histograms_[row]; }
  std::int64_t restarts() const { return restarts_; }

 private:
  double TakeDelta(double total, double& process_total) const;
  double RedoneShare(const ReplicaMetrics& metrics);
  void AddHistogram(std::size_t row, const DurationHistogram& of_process);

  std::string rank_;
  bool has_values_ = false;
  std::vector<double> values_, process_totals_;  // by row
  api::TestMetrics test_metrics_;
  std::int64_t first_step_ = -1;  // as the last update has it
  std::int64_t step_ = 0, furthest_step_ = 0;
  std::int64_t redone_until_ = 0;  // steps below it had been reached when the values were loaded
  std::vector<DurationHistogram> histograms_, process_histograms_;  // by row
  std::int64_t restarts_ = 0;
  bool has_known_run_ = false;  // some process has
};

}  // namespace lockstep::train
