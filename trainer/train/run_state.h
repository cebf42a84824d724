// A run's position and statistics, apart from the model's tensors. Equal on all ranks.
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

// Trivially copyable: broadcast as raw bytes between ranks of one machine type and one kProtocol.
struct RunState {
  std::int64_t step = -1;  // steps done; -1: no state yet
  EpochSums sums;          // over all ranks, for the last step's epoch
  Ledger ledger;
  std::int64_t evaluated_step = -1;
  double test_loss = 0, test_accuracy = 0;
  std::uint64_t evaluated_on = 0;  // Session::EvaluationDigest() at that step; 0: not known
  // Steps that updated nothing: see StepTotals::skipped.
  std::int64_t skipped_steps = 0;            // since the job began
  std::int64_t skipped_in_a_row = 0;         // up to the last step
  std::int64_t left_out_steps = 0;           // of epochs that could not be ended: see TakePosition
  LossScale loss_scale = kInitialLossScale;  // of the next step; only precision Float16 alters it

  bool operator==(const RunState&) const = default;
  // How many of the `step` steps updated nothing, so that the optimizer does not count them.
  std::int64_t StepsWithoutUpdate() const { return skipped_steps + left_out_steps; }
};

// Adds a step that was applied or skipped to `state`. After an epoch's last step, checks the
// epoch's ledger, which counts the samples of skipped steps as used.
void ApplyStep(const StepTotals& totals, const StepPlan& plan, RunState& state);

nlohmann::json RunStateToJson(const RunState& state);
// DataLoss names a field that is missing, has the wrong type, is a negative count, or is a loss
// scale below 1. InvalidArgument: the ledger has a negative count. Fields that checkpoints of
// earlier versions lack have defaults: without test loss and accuracy, the step counts as not
// evaluated; skipped and left-out steps are 0; a loss scale that is absent or 1 becomes the initial
// one.
absl::StatusOr<RunState> RunStateFromJson(const nlohmann::json& json);

}  // namespace lockstep::train
