// TrainingJobs as a table for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/v1/training_job.h"

namespace lockstep::cli {

struct TableStyle {
  bool namespaces = false;  // a column for them
  bool bars = false;        // progress as a bar, for terminals; else in per cent
  int width = 0;            // columns of the terminal; lines are cut there; 0: never
};

// A header and a line for each job: state, ready replicas, progress, loss, speed, time left,
// restarts, age. What is not known is "-". Ends with a newline.
std::string JobTable(const std::vector<api::TrainingJob>& jobs, Time now, const TableStyle& style);

// What one job's row has no room for: conditions that hold, the last failure, the checkpoint.
std::string JobDetails(const api::TrainingJob& job);

// "[######----]  60%", `cells` wide between the brackets.
std::string ProgressBar(double fraction, int cells);

// As kubectl tells an age: "45s", "12m", "3h", "4d".
std::string FormatAge(Duration age);

}  // namespace lockstep::cli
