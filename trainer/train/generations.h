// A replica's life in the group: generation after generation, until the run has ended.
#pragma once

#include "absl/status/status.h"
#include "trainer/supervisor/restart_budget.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {

// Generations in a row without a step of progress: the first again at once, as after any loss, the
// later ones after a pause that grows. More than these, and something is wrong that forming the
// group once more does not mend (ports that a policy blocks, a disk that only returns errors).
inline constexpr RestartBudgetOptions kGenerationBudget = {
    .restarts = 20,
    .first_delay = std::chrono::milliseconds(250),
    .longest_delay = std::chrono::seconds(10)};

// Joins and trains until the run has ended on all ranks, or this one cannot take part any more.
// Memory is kept: only the group of processes changes. Returns the process's exit code
// (api/v1/names.h); the reason is in the log.
int RunGenerations(TrainLoop& loop, const RestartBudgetOptions& budget = kGenerationBudget);

// Logs the error and returns the exit code for it: of a replica that cannot begin.
int FailWith(const absl::Status& status);

}  // namespace lockstep::train
