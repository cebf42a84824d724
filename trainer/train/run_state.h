// A run's position and statistics, apart from the model's tensors. Equal on all ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "api/v1/enum_names.h"
#include "api/v1/training_job.h"
#include "trainer/data/sampler.h"
#include "trainer/observe/ledger.h"
#include "trainer/observe/progress.h"
#include "trainer/train/train_step.h"

namespace lockstep::train {

// The named metrics of an evaluation. Trivially copyable, unlike api::TestMetrics.
class KeptMetrics {
 public:
  KeptMetrics() = default;
  KeptMetrics(const api::TestMetrics& metrics, const api::EvaluationSpec& by);
  // Returns those that `spec` names and that were measured with its topK.
  api::TestMetrics Of(const api::EvaluationSpec& spec) const;
  api::TestMetrics All() const;
  nlohmann::json ToJson() const;  // null: there are none
  // Passes over those that are unknown. Throws nlohmann::json::exception.
  static KeptMetrics FromJson(const nlohmann::json& json);
  bool operator==(const KeptMetrics&) const = default;

 private:
  static constexpr std::size_t kMost = std::size(api::kEnumNames<api::TestMetric>);
  std::array<double, kMost> values_ = {};  // by metric; 0: see has_
  std::array<std::int32_t, kMost> has_ = {};
  std::int64_t top_k_ = 0;
};

// What early stopping keeps of the evaluations so far.
struct BestEvaluation {
  std::int64_t step = -1;  // of the best one; -1: there is none yet
  double value = 0;        // of `metric`
  double test_loss = 0, test_accuracy = 0;
  KeptMetrics test_metrics;
  std::int64_t without_improvement = 0;  // evaluations since then
  api::BestMetric metric = api::BestMetric::kLoss;
  bool operator==(const BestEvaluation&) const = default;
};

// Trivially copyable: broadcast as raw bytes between ranks of one machine type and one kProtocol.
struct RunState {
  std::int64_t step = -1;  // steps done; -1: no state yet
  EpochSums sums;          // over all ranks, for the last step's epoch
  Ledger ledger;
  std::int64_t evaluated_step = -1;
  double test_loss = 0, test_accuracy = 0;
  KeptMetrics test_metrics;
  std::uint64_t evaluated_on = 0;  // Session::EvaluationDigest() at that step; 0: not known
  // Steps that updated nothing: see StepTotals::skipped.
  std::int64_t skipped_steps = 0;            // since the job began
  std::int64_t skipped_in_a_row = 0;         // up to the last step
  std::int64_t left_out_steps = 0;           // of epochs that could not be ended: see TakePosition
  LossScale loss_scale = kInitialLossScale;  // of the next step; only precision Float16 alters it
  BestEvaluation best;                       // only earlyStopping alters it
  // Replicas at the beginning of the epoch that is under way, if its order depends on them (see
  // StepPlan::deals_files): it keeps that order whatever becomes of them. 0: at an epoch's end.
  std::int64_t epoch_replicas = 0;

  bool operator==(const RunState&) const = default;
  // How many of the `step` steps updated nothing, so that the optimizer does not count them.
  std::int64_t StepsWithoutUpdate() const { return skipped_steps + left_out_steps; }
};

// Adds a step that was applied or skipped to `state`. After an epoch's last step, checks the
// epoch's ledger, which counts the samples of skipped steps as used.
void ApplyStep(const StepTotals& totals, const StepPlan& plan, RunState& state);

// Counts the evaluation that `state` holds, once, for early stopping. The ranks hold the same bits
// of it, so all of them stop after it or none does.
void CountEvaluation(const api::EarlyStoppingSpec& stopping, const StepPlan& plan, RunState& state);
// Forgets the last evaluation and the best one.
void ForgetEvaluations(RunState& state);
// Forgets the best evaluation unless the job counts on, by the same metric with the same topK.
void KeepBestOf(const api::TrainingSpec& training, RunState& state);
// Returns true if no step follows `state`: it has just been evaluated, and so many evaluations in a
// row were without an improvement. It depends on what the job says now: with more patience, the run
// goes on.
bool HasStoppedEarly(const api::TrainingSpec& training, const RunState& state);

// Returns true if a run that ended with `state` would have the model of its best evaluation, and
// not that of its last step. As Keras does with restore_best_weights, however the run ends.
bool RestoresBest(const api::TrainingSpec& training, const RunState& state);

nlohmann::json RunStateToJson(const RunState& state);
// DataLoss names a field that is missing, has the wrong type, is a negative count, or is a loss
// scale below 1. InvalidArgument: the ledger has a negative count. Fields that checkpoints of
// earlier versions lack have defaults: without test loss and accuracy, the step counts as not
// evaluated; skipped and left-out steps are 0; a loss scale that is absent or 1 becomes the initial
// one; no evaluation was the best.
absl::StatusOr<RunState> RunStateFromJson(const nlohmann::json& json);

}  // namespace lockstep::train
