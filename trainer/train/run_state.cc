#include "trainer/train/run_state.h"

#include <fmt/format.h>

#include <cmath>

#include "base/status.h"

namespace lockstep::train {

void ApplyStep(const StepTotals& totals, const StepPlan& plan, RunState& state) {
  if (plan.StepInEpoch(state.step) == 0) state.sums = {};
  const std::int64_t examples = std::llround(totals.examples);
  if (totals.skipped) {
    state.skipped_steps += 1;
    state.skipped_in_a_row += 1;
  } else {
    state.skipped_in_a_row = 0;
    state.sums.examples += examples;
    state.sums.loss += totals.loss;
    state.sums.correct += totals.correct;
  }
  if (totals.loss_scale) state.loss_scale = *totals.loss_scale;
  state.ledger.Add(examples, totals.hash);
  state.step += 1;
  if (plan.StepInEpoch(state.step) == 0) state.ledger.Check(plan.examples);
}

namespace {

// Old checkpoints hold null for an evaluation that gave NaN, which JSON lacks; it is evaluated
// again.
void ReadEvaluation(const nlohmann::json& json, RunState& state) {
  const nlohmann::json loss = json.value("testLoss", nlohmann::json());
  const nlohmann::json accuracy = json.value("testAccuracy", nlohmann::json());
  if (loss.is_null() || accuracy.is_null()) return;
  json.at("evaluatedStep").get_to(state.evaluated_step);
  loss.get_to(state.test_loss);
  accuracy.get_to(state.test_accuracy);
  state.evaluated_on = json.value("evaluatedOn", state.evaluated_on);
}

}  // namespace

nlohmann::json RunStateToJson(const RunState& state) {
  return {{"step", state.step},
          {"examples", state.sums.examples},
          {"loss", state.sums.loss},
          {"correct", state.sums.correct},
          {"ledger", state.ledger.ToIntegers()},
          {"evaluatedStep", state.evaluated_step},
          {"evaluatedOn", state.evaluated_on},
          {"skippedSteps", state.skipped_steps},
          {"skippedInARow", state.skipped_in_a_row},
          {"lossScale", state.loss_scale.value},
          {"lossScaleUpdates", state.loss_scale.updates},
          {"testLoss", state.test_loss},
          {"testAccuracy", state.test_accuracy}};
}

absl::StatusOr<RunState> RunStateFromJson(const nlohmann::json& json) {
  RunState state;
  Ledger::Integers ledger;
  try {
    json.at("step").get_to(state.step);
    json.at("examples").get_to(state.sums.examples);
    json.at("loss").get_to(state.sums.loss);
    json.at("correct").get_to(state.sums.correct);
    json.at("ledger").get_to(ledger);
    ReadEvaluation(json, state);
    state.skipped_steps = json.value("skippedSteps", state.skipped_steps);
    state.skipped_in_a_row = json.value("skippedInARow", state.skipped_in_a_row);
    state.loss_scale.value = json.value("lossScale", state.loss_scale.value);
    state.loss_scale.updates = json.value("lossScaleUpdates", state.loss_scale.updates);
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(fmt::format("the manifest's run state: {}", error.what()));
  }
  const float scale = state.loss_scale.value;
  if (!(scale >= 1 && scale <= LossScale::kLargest)) {
    return absl::DataLossError(
        fmt::format("the manifest's run state: lossScale is {}, expected a number from 1 to {}",
                    scale, LossScale::kLargest));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(state.ledger, Ledger::FromIntegers(ledger));
  return state;
}

}  // namespace lockstep::train
