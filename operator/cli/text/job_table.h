// Formats TrainingJobs as a table for users. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/v1/training_job.h"

namespace lockstep::cli {

struct TableStyle {
  bool namespaces = false;  // adds a namespace column
  bool wide = false;        // adds columns: epoch, accuracy, goodput, checkpoint, test metrics
  bool bars = false;        // progress as a bar, for terminals; else as a percentage
  int width = 0;            // of the terminal in columns; truncates lines; 0: unlimited
};

// Returns a header and a line for each job: state, ready replicas, progress, loss, speed, time
// left, restarts, age. Unknown values are "-". Ends with a newline.
std::string JobTable(const std::vector<api::TrainingJob>& jobs, Time now, const TableStyle& style);

// Returns what a job's row has no room for: true conditions, why a pending job does not run, the
// last checkpoint, the last failure, the variants.
std::string JobDetails(const api::TrainingJob& job);

// Returns a header and a line for each variant of an Independent job that has ended: name, how it
// ended, steps, losses, accuracies and named metrics. The best test accuracy (without one, the
// lowest loss) is marked. Empty without variants.
std::string VariantTable(const std::vector<api::VariantResult>& variants);

// Returns the state that the operator has given the job: "new" before it has seen the job.
std::string StateName(const api::TrainingJobStatus& status);

// Returns "[######----]  60%", `cells` wide between the brackets.
std::string ProgressBar(double fraction, int cells);

// Formats an age in kubectl's units: "45s", "12m", "3h", "4d".
std::string FormatAge(Duration age);

}  // namespace lockstep::cli
