// Runs one generation after another until the run ends.
#pragma once

#include "absl/status/status.h"
#include "trainer/supervisor/restart_budget.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {

// How many consecutive generations may fail without a step of progress, but for those that ended
// because a member was lost. The first retry is immediate, as after any loss; later ones wait for a
// growing delay. A longer series means a fault that a new group does not fix (a policy that blocks
// ports, a disk that only returns errors).
inline constexpr RestartBudgetOptions kGenerationBudget = {
    .restarts = 20,
    .first_delay = std::chrono::milliseconds(250),
    .longest_delay = std::chrono::seconds(10)};

// Joins and trains until the run has ended on all ranks or this rank can no longer take part.
// State in memory survives from one generation to the next. Returns the process's exit code
// (api/v1/names.h) and logs the reason. Rank 0 saves its state before it exits, unless it has just
// saved it, failed to save the result, diverged or finished. A save that fails because another pod
// stops is no reason to exit: the next one may succeed.
int RunGenerations(TrainLoop& loop, const RestartBudgetOptions& budget = kGenerationBudget);

// Logs the error, which is not one of the checkpoints' disk, and returns the exit code for it.
int FailWith(const absl::Status& status);
// Returns the exit code of a process whose run ended so, and logs the reason of a bad end.
int ExitCodeOfEnd(const LoopOutcome& outcome);

}  // namespace lockstep::train
