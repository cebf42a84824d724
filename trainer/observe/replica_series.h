// The numbers of one replica over all of its processes, as its pod serves them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/observe/metrics.h"

namespace lockstep::train {

// One time series: rows of the same name stand together and make one family.
struct SeriesRow {
  const char* name;
  const char* help;
  bool is_counter;    // else a gauge
  const char* phase;  // of lockstep_trainer_time_seconds_total; else null
  double (*value)(const ReplicaMetrics&);
};
std::span<const SeriesRow> SeriesRows();

// Of the leading rank, which has what all ranks share: 18 series of each rank would be too many.
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
  // A process counts from 0, so a total that went back is that of a new one; its counts are added.
  // Time for steps that an earlier process of this replica had done already (a checkpoint is behind
  // the failure) counts as the phase `rework`, not as what it was spent on.
  void Update(const ReplicaMetrics& metrics);
  // What follows is of a new process.
  void CountRestart();

  const std::string& rank() const { return rank_; }
  bool has_values() const { return has_values_; }
  double value(std::size_t row) const { return values_[row]; }
  const DurationHistogram& histogram(std::size_t row) const { return histograms_[row]; }
  std::int64_t restarts() const { return restarts_; }

 private:
  double TakeDelta(double total, double& process_total) const;
  double RedoneShare(const ReplicaMetrics& metrics);
  void AddHistogram(std::size_t row, const DurationHistogram& of_process);

  std::string rank_;
  bool has_values_ = false;
  std::vector<double> values_, process_totals_;  // by row
  std::int64_t process_steps_ = 0, furthest_step_ = 0;
  std::vector<DurationHistogram> histograms_, process_histograms_;  // by row
  std::int64_t restarts_ = 0;
};

}  // namespace lockstep::train
