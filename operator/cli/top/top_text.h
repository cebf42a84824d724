// What `lockstep top` shows of a job: for users, and for programs. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/v1/training_job.h"
#include "operator/cli/top/step_times.h"
#include "operator/cli/top/trainer_pods.h"

namespace lockstep::cli {

struct JobTop {
  std::string namespace_name;  // empty for a run on this machine
  std::string name;
  std::string state;  // "Running"
  std::string ready;  // "2/2"; empty: not known
  double step = 0, total_steps = 0;
  std::optional<double> loss, remaining_seconds;
  double examples_per_second = 0;
  StepTimes times;
  std::vector<UnreadPod> unread;
};

// Returns all ranks; of more than `most`, the stragglers and those that wait least for others. They
// are in the order of their numbers.
std::vector<RankTimes> RanksToShow(const std::vector<RankTimes>& ranks, std::size_t most);

// Sets what the ranks or, if none knows it yet, the job's status say of the whole job's progress.
// If variants train alone, the progress is that of the one that is furthest from its end.
void SetProgress(const std::vector<RankMetrics>& ranks, const api::TrainingJobStatus& status,
                 JobTop& top);

// Returns a header and a line for each job.
std::string TopTable(const std::vector<JobTop>& jobs);

// Returns the job's progress, its time for a step by phase, and a line for each rank: of more than
// 20 ranks, the stragglers and those that wait least for others.
std::string TopOfJob(const JobTop& job);

// Returns the members of docs/cli.md#top; what is not known is null.
nlohmann::ordered_json ToJson(const JobTop& job);

}  // namespace lockstep::cli
