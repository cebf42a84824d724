#include "trainer/train/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::train {
namespace {

// An epoch is in order if n samples were counted and their hashes add up to those of 0 … n-1. If
// only the hash is off, as many were counted twice as were left out: at least one.
void CloseEpoch(const StepPlan& plan, RunState& state) {
  const std::int64_t surplus = state.examples - plan.examples;
  const bool same_set = state.hash_sum == ExpectedHashSum(plan.examples);
  state.samples_lost += std::max<std::int64_t>(-surplus, 0);
  state.samples_duplicated += std::max<std::int64_t>(surplus, 0);
  if (surplus == 0 && !same_set) {
    state.samples_lost += 1;
    state.samples_duplicated += 1;
  }
  state.epochs_closed += 1;
}

}  // namespace

void ApplyStep(const StepTotals& totals, const StepPlan& plan, RunState& state) {
  if (plan.StepInEpoch(state.step) == 0) {
    state.loss_sum = state.correct = 0;
    state.examples = 0;
    state.hash_sum = 0;
  }
  state.loss_sum += totals.loss;
  state.correct += totals.correct;
  state.examples += std::llround(totals.examples);
  state.hash_sum += totals.hash;
  state.step += 1;
  if (plan.StepInEpoch(state.step) == 0) CloseEpoch(plan, state);
}

nlohmann::json RunStateToJson(const RunState& state) {
  return {{"step", state.step},
          {"lossSum", state.loss_sum},
          {"correct", state.correct},
          {"examples", state.examples},
          {"hashSum", state.hash_sum},
          {"epochsClosed", state.epochs_closed},
          {"samplesLost", state.samples_lost},
          {"samplesDuplicated", state.samples_duplicated},
          {"evaluatedStep", state.evaluated_step},
          {"testLoss", state.test_loss},
          {"testAccuracy", state.test_accuracy}};
}

absl::StatusOr<RunState> RunStateFromJson(const nlohmann::json& json) {
  RunState state;
  try {
    json.at("step").get_to(state.step);
    json.at("lossSum").get_to(state.loss_sum);
    json.at("correct").get_to(state.correct);
    json.at("examples").get_to(state.examples);
    json.at("hashSum").get_to(state.hash_sum);
    json.at("epochsClosed").get_to(state.epochs_closed);
    json.at("samplesLost").get_to(state.samples_lost);
    json.at("samplesDuplicated").get_to(state.samples_duplicated);
    json.at("evaluatedStep").get_to(state.evaluated_step);
    json.at("testLoss").get_to(state.test_loss);
    json.at("testAccuracy").get_to(state.test_accuracy);
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(fmt::format("the manifest's run state: {}", error.what()));
  }
  return state;
}

}  // namespace lockstep::train
