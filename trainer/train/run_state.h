// Where a run stands, apart from the numbers of the model: a few integers, the same on all ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/sampler.h"
#include "trainer/observe/ledger.h"
#include "trainer/observe/progress.h"
#include "trainer/train/train_step.h"

namespace lockstep::train {

// Plain bytes: broadcast as they are between ranks of one machine type.
struct RunState {
  std::int64_t step = -1;  // steps done; -1: no state yet
  EpochSums sums;          // over all ranks, of the epoch of the last step
  Ledger ledger;
  std::int64_t evaluated_step = -1;
  double test_loss = 0, test_accuracy = 0;

  bool operator==(const RunState&) const = default;
};

// Adds a step that has been applied; closes the epoch's account with its last step.
void ApplyStep(const StepTotals& totals, const StepPlan& plan, RunState& state);

nlohmann::json RunStateToJson(const RunState& state);
// DataLoss names the field that is missing or of another type. Without an evaluation's numbers the
// step counts as not evaluated.
absl::StatusOr<RunState> RunStateFromJson(const nlohmann::json& json);

}  // namespace lockstep::train
