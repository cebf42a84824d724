#include "trainer/train/run_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {
namespace {

constexpr StepPlan kPlan{.examples = 10, .global_batch = 4, .world = 2};

std::uint64_t HashOfRange(std::int64_t begin, std::int64_t end) {
  std::uint64_t sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += SampleHash(i);
  return sum;
}

StepTotals Step(std::int64_t begin, std::int64_t end) {
  return {.loss = 2.0 * static_cast<double>(end - begin),
          .correct = static_cast<double>(end - begin),
          .examples = static_cast<double>(end - begin),
          .hash = HashOfRange(begin, end)};
}

TEST(RunStateTest, AnEpochThatCountsEverySampleOnceIsInOrder) {
  RunState state{.step = 0};
  ApplyStep(Step(0, 4), kPlan, state);
  ApplyStep(Step(4, 8), kPlan, state);
  EXPECT_EQ(state.ledger.epochs_checked(), 0);
  ApplyStep(Step(8, 10), kPlan, state);
  EXPECT_EQ(state.ledger.epochs_checked(), 1);
  EXPECT_EQ(state.ledger.lost_total(), 0);
  EXPECT_EQ(state.ledger.duplicated_total(), 0);
  EXPECT_DOUBLE_EQ(state.sums.loss, 20);
}

TEST(RunStateTest, ASkippedStepUsesItsSamplesAndAddsNothingToTheMean) {
  RunState state{.step = 0};
  ApplyStep(Step(0, 4), kPlan, state);
  StepTotals skipped = Step(4, 8);
  skipped.skipped = true;
  skipped.loss = skipped.correct = 0;
  ApplyStep(skipped, kPlan, state);
  EXPECT_EQ(state.skipped_in_a_row, 1);
  EXPECT_EQ(RunStateFromJson(RunStateToJson(state)).value(), state);
  ApplyStep(Step(8, 10), kPlan, state);
  EXPECT_EQ(state.ledger.lost_total(), 0);
  EXPECT_EQ(state.sums.examples, 6);
  EXPECT_DOUBLE_EQ(state.sums.loss, 12);
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.skipped_steps, 1);
  EXPECT_EQ(state.skipped_in_a_row, 0);
}

TEST(RunStateTest, TheLossScaleIsKept) {
  RunState state{.step = 0};
  StepTotals totals = Step(0, 4);
  totals.loss_scale = {.value = 64, .updates = 7};
  ApplyStep(totals, kPlan, state);
  EXPECT_EQ(state.loss_scale, totals.loss_scale);
  EXPECT_EQ(RunStateFromJson(RunStateToJson(state)).value(), state);
  nlohmann::json json = RunStateToJson(state);
  json["lossScale"] = 0;
  EXPECT_EQ(RunStateFromJson(json).status().message(),
            "the manifest's run state: lossScale is 0, expected a number from 1 to 16777216");
}

TEST(RunStateTest, AStepThatHasNoLossScaleLeavesItAsItIs) {
  RunState state{.step = 0, .loss_scale = {.value = 64, .updates = 7}};
  ApplyStep(Step(0, 4), kPlan, state);
  EXPECT_EQ(state.loss_scale, (LossScale{.value = 64, .updates = 7}));
}

TEST(RunStateTest, ACheckpointFromBeforeStepsWereSkippedIsRead) {
  nlohmann::json json = RunStateToJson({.step = 3});
  json.erase("skippedSteps");
  json.erase("skippedInARow");
  json.erase("lossScale");
  json.erase("lossScaleUpdates");
  EXPECT_EQ(RunStateFromJson(json).value(), RunState{.step = 3});
  json["lossScale"] = 1;  // of a run that has not adapted it
  json["lossScaleUpdates"] = 0;
  EXPECT_EQ(RunStateFromJson(json).value(), RunState{.step = 3});
}

TEST(RunStateTest, AStepThatIsLeftOutIsCountedAsLost) {
  RunState state{.step = 0};
  ApplyStep(Step(0, 4), kPlan, state);
  ApplyStep(Step(4, 4), kPlan, state);
  ApplyStep(Step(8, 10), kPlan, state);
  EXPECT_EQ(state.ledger.lost_total(), 4);
  EXPECT_EQ(state.ledger.duplicated_total(), 0);
}

TEST(RunStateTest, AStepThatIsCountedTwiceIsCountedAsDuplicated) {
  RunState state{.step = 0};
  ApplyStep(Step(0, 8), kPlan, state);
  ApplyStep(Step(4, 8), kPlan, state);
  ApplyStep(Step(8, 10), kPlan, state);
  EXPECT_EQ(state.ledger.lost_total(), 0);
  EXPECT_EQ(state.ledger.duplicated_total(), 4);
}

TEST(RunStateTest, OneSampleInTheWrongPlaceIsSeenThoughTheCountIsRight) {
  RunState state{.step = 0};
  ApplyStep(Step(0, 4), kPlan, state);
  ApplyStep(Step(3, 7), kPlan, state);  // 3 twice, 7 never
  ApplyStep(Step(8, 10), kPlan, state);
  EXPECT_EQ(state.ledger.lost_total(), 1);
  EXPECT_EQ(state.ledger.duplicated_total(), 1);
}

TEST(RunStateTest, TheNextEpochStartsFromZero) {
  RunState state{.step = 3, .sums = {.examples = 10, .loss = 20, .correct = 10}};
  ApplyStep(Step(0, 4), kPlan, state);
  EXPECT_EQ(state.sums.examples, 4);
  EXPECT_DOUBLE_EQ(state.sums.loss, 8);
}

TEST(RunStateTest, AnEpochKnowsTheNumberOfReplicasThatItBeganWith) {
  StepPlan plan = kPlan;
  plan.deals_files = true;
  RunState state{.step = 0};
  ApplyStep(Step(0, 4), plan, state);
  EXPECT_EQ(state.epoch_replicas, 2);
  EXPECT_EQ(RunStateFromJson(RunStateToJson(state)).value(), state);
  plan.world = 3;
  ApplyStep(Step(4, 8), plan, state);
  EXPECT_EQ(state.epoch_replicas, 2);
  ApplyStep(Step(8, 10), plan, state);
  EXPECT_EQ(state.epoch_replicas, 0) << "the next one begins with as many as there are then";
  EXPECT_FALSE(RunStateToJson(state).contains("epochReplicas"));
  ApplyStep(Step(0, 4), plan, state);
  EXPECT_EQ(state.epoch_replicas, 3);
  nlohmann::json json = RunStateToJson(state);
  json["epochReplicas"] = -1;
  EXPECT_EQ(RunStateFromJson(json).status().message(),
            "the manifest's run state: epochReplicas is -1, expected at least 0");
}

TEST(RunStateTest, AnOrderThatDoesNotDependOnReplicasKnowsNone) {
  RunState state{.step = 0};
  ApplyStep(Step(0, 4), kPlan, state);
  EXPECT_EQ(state.epoch_replicas, 0);
}

// A job whose checkpoint an earlier version wrote, or that names none, has the text that it had.
TEST(RunStateTest, NamedMetricsAreInTheTextIfThereAreAny) {
  EXPECT_FALSE(RunStateToJson({.step = 3, .evaluated_step = 3}).contains("testMetrics"));
  const api::EvaluationSpec spec{.metrics = {api::TestMetric::kTopKCategoricalAccuracy},
                                 .top_k = 3};
  RunState state{.step = 3, .evaluated_step = 3};
  state.test_metrics = {{{api::TestMetric::kTopKCategoricalAccuracy, 0.75}}, spec};
  state.best.step = 2;
  state.best.test_metrics = {{{api::TestMetric::kTopKCategoricalAccuracy, 0.875}}, spec};
  nlohmann::json json = nlohmann::json::parse(RunStateToJson(state).dump());
  json["testMetrics"]["OfALaterVersion"] = 1;
  const auto read = RunStateFromJson(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, state);
  ForgetEvaluations(state);
  EXPECT_TRUE(state.test_metrics.Of(spec).empty());
}

TEST(KeptMetricsTest, AreThoseThatTheJobNamesNow) {
  using enum api::TestMetric;
  const KeptMetrics kept({{kAuc, 0.5}, {kTopKCategoricalAccuracy, 0.25}}, {.top_k = 3});
  EXPECT_EQ(kept.Of({.metrics = {kAuc, kRecall}}), (api::TestMetrics{{kAuc, 0.5}}));
  EXPECT_EQ(kept.Of({.metrics = {kTopKCategoricalAccuracy}, .top_k = 3}),
            (api::TestMetrics{{kTopKCategoricalAccuracy, 0.25}}));
  EXPECT_TRUE(kept.Of({.metrics = {kTopKCategoricalAccuracy}, .top_k = 4}).empty());
}

TEST(RunStateTest, SurvivesJson) {
  RunState state{.step = 7,
                 .sums = {.examples = 4, .loss = 1.5, .correct = 3},
                 .evaluated_step = 6,
                 .test_loss = 0.25,
                 .test_accuracy = 0.5,
                 .evaluated_on = 0xfedcba9876543210};
  state.ledger.Add(4, 0xfedcba9876543210);
  const auto read = RunStateFromJson(nlohmann::json::parse(RunStateToJson(state).dump()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, state);
}

TEST(RunStateTest, ASumThatIsInfiniteIsReadAgain) {
  RunState state{.step = 7};
  state.sums = {.examples = 4, .loss = 1.5, .correct = std::numeric_limits<double>::infinity()};
  const auto read = RunStateFromJson(nlohmann::json::parse(RunStateToJson(state).dump()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, state);
}

TEST(RunStateTest, AnEvaluationThatWasNoNumberCountsAsNone) {
  nlohmann::json json = RunStateToJson({.step = 7, .evaluated_step = 7, .test_accuracy = 0.5});
  json["testLoss"] = nullptr;  // as JSON saves a NaN
  const auto read = RunStateFromJson(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->step, 7);
  EXPECT_EQ(read->evaluated_step, -1);
  json.erase("testLoss");
  EXPECT_TRUE(RunStateFromJson(json).ok());
}

TEST(RunStateTest, AMissingFieldIsNamed) {
  nlohmann::json json = RunStateToJson(RunState{});
  json.erase("ledger");
  const auto read = RunStateFromJson(json);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(read.status().message().find("ledger"), std::string::npos);
}

TEST(RunStateTest, ANegativeCountIsRefusedByName) {
  for (const char* name :
       {"step", "examples", "skippedSteps", "skippedInARow", "lossScaleUpdates"}) {
    nlohmann::json json = RunStateToJson({.step = 3});
    json[name] = -1;
    const absl::Status status = RunStateFromJson(json).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << name;
    EXPECT_EQ(status.message(),
              std::string("the manifest's run state: ") + name + " is -1, expected at least 0");
  }
}

// A float has no place for 2^24 + 1.
TEST(StepTailTest, ExamplesOfAllRanksAddUpExactly) {
  constexpr std::int64_t kOfEach = (1 << 24) + 1;
  constexpr int kRanks = 59;  // a billion, the largest global batch
  StepTail sum;
  for (int rank = 0; rank < kRanks; ++rank) {
    StepTail own;
    SetExamples(own, kOfEach);
    sum.examples.low += own.examples.low;
    sum.examples.high += own.examples.high;
  }
  EXPECT_EQ(ExamplesOf(sum), kOfEach * kRanks);
}

TEST(StepTailTest, HashesOfAllRanksAddUpExactly) {
  const std::uint64_t a = 0xffffffffffffffff, b = 0x0123456789abcdef;
  StepTail sum, other;
  SetHash(sum, a);
  SetHash(other, b);
  for (int i = 0; i < StepTail::kHashLimbs; ++i) sum.hash_limbs[i] += other.hash_limbs[i];
  EXPECT_EQ(HashOf(sum), a + b);
}

// Evaluates after one step more, with this loss and this accuracy or mean absolute error.
void Evaluate(double loss, double accuracy, const api::EarlyStoppingSpec& stopping, RunState& state,
              const KeptMetrics& named = {}) {
  state.step += kPlan.StepsPerEpoch();
  state.evaluated_step = state.step;
  state.test_loss = loss;
  state.test_accuracy = accuracy;
  state.test_metrics = named;
  CountEvaluation(stopping, kPlan, state);
}

struct StoppingCase {
  const char* what;
  api::EarlyStoppingSpec stopping;
  std::vector<double> values;  // of the metric; the other ones get better all the time
  int stops_after;             // so many evaluations; 0: never
};

class EarlyStoppingTest : public ::testing::TestWithParam<StoppingCase> {};

TEST_P(EarlyStoppingTest, EndsTheRunAfterTheEvaluation) {
  const StoppingCase& with = GetParam();
  api::TrainingSpec training;
  training.early_stopping = with.stopping;
  RunState state{.step = 0};
  int evaluations = 0, stops_after = 0;
  for (const double value : with.values) {
    const double falls = 1.0 / ++evaluations;
    const bool is_loss = with.stopping.metric == api::BestMetric::kLoss;
    const auto* named = api::FindByName<api::TestMetric>(api::NameOf(with.stopping.metric));
    api::TestMetrics metrics;  // without one that is not finite, as EvaluationMetrics gives them
    if (named != nullptr && std::isfinite(value)) metrics[*named] = value;
    Evaluate(is_loss ? value : falls, is_loss || named != nullptr ? -falls : value, with.stopping,
             state, {metrics, {}});
    // What a restart finds is what was counted.
    state = RunStateFromJson(RunStateToJson(state)).value();
    if (HasStoppedEarly(training, state)) {
      stops_after = evaluations;
      break;
    }
  }
  EXPECT_EQ(stops_after, with.stops_after);
}

constexpr auto kByLoss = api::BestMetric::kLoss;
constexpr auto kByAccuracy = api::BestMetric::kAccuracy;
constexpr auto kByError = api::BestMetric::kMeanAbsoluteError;
constexpr auto kByAuc = api::BestMetric::kAuc;
constexpr auto kBySquares = api::BestMetric::kMeanSquaredError;
constexpr auto kByTopK = api::BestMetric::kTopKCategoricalAccuracy;
INSTANTIATE_TEST_SUITE_P(
    Cases, EarlyStoppingTest,
    ::testing::Values(
        StoppingCase{"FallingLoss", {.metric = kByLoss}, {4, 3, 2, 1}, 0},
        StoppingCase{"EqualLoss", {.metric = kByLoss}, {4, 3, 3, 1}, 3},
        StoppingCase{"RisingAccuracy", {.metric = kByAccuracy}, {0.1, 0.2, 0.3}, 0},
        StoppingCase{"FallingAccuracy", {.metric = kByAccuracy}, {0.3, 0.2, 0.1}, 2},
        StoppingCase{"FallingError", {.metric = kByError}, {0.3, 0.2, 0.1}, 0},
        StoppingCase{"RisingError", {.metric = kByError}, {0.1, 0.2, 0.3}, 2},
        StoppingCase{"RisingAuc", {.metric = kByAuc}, {0.1, 0.2, 0.3}, 0},
        StoppingCase{"FallingAuc", {.metric = kByAuc}, {0.3, 0.2, 0.1}, 2},
        StoppingCase{"FallingSquares", {.metric = kBySquares}, {0.3, 0.2, 0.1}, 0},
        StoppingCase{"RisingSquares", {.metric = kBySquares}, {0.1, 0.2, 0.3}, 2},
        StoppingCase{"AucThatIsNoNumber",
                     {.metric = kByAuc, .patience = 2},
                     {std::nan(""), 0.5, std::nan(""), std::nan("")},
                     4},
        StoppingCase{"PatienceCountsInARow", {.patience = 2}, {4, 5, 3, 4, 2, 3, 3}, 7},
        // The best so far counts, not the last.
        StoppingCase{"SlowRecovery", {.patience = 3}, {4, 9, 8, 7}, 4},
        StoppingCase{"JustTheDelta", {.min_delta = 1}, {4, 3}, 2},
        StoppingCase{"MoreThanTheDelta", {.min_delta = 1}, {4, 2.5, 1}, 0},
        // Small steps add up: they are measured from the best, which stays.
        StoppingCase{"SmallSteps", {.patience = 3, .min_delta = 1}, {4, 3.5, 3, 2.5, 2, 2}, 0},
        StoppingCase{"LaterStart", {.start_from_epoch = 2}, {1, 2, 3, 2, 2}, 5},
        StoppingCase{"Infinite", {.metric = kByError, .patience = 2}, {HUGE_VAL, 3, HUGE_VAL}, 0}),
    [](const auto& test) { return std::string(test.param.what); });

TEST(RunStateTest, TheBestEvaluationIsKept) {
  const api::EarlyStoppingSpec stopping{.metric = kByAccuracy};
  RunState state{.step = 0};
  Evaluate(1, 0.25, stopping, state);
  const std::int64_t step = state.step;
  Evaluate(1, 0.2, stopping, state);
  const BestEvaluation expected{.step = step,
                                .value = 0.25,
                                .test_loss = 1,
                                .test_accuracy = 0.25,
                                .without_improvement = 1,
                                .metric = kByAccuracy};
  EXPECT_EQ(state.best, expected);
  EXPECT_EQ(RunStateFromJson(RunStateToJson(state)).value(), state);
}

TEST(RunStateTest, WhatWasCountedForAnotherMetricOrWithoutEarlyStoppingIsForgotten) {
  api::TrainingSpec training;
  training.early_stopping.emplace();
  RunState counted{.step = 0};
  Evaluate(1, 0.25, *training.early_stopping, counted);
  Evaluate(1, 0.25, *training.early_stopping, counted);
  RunState state = counted;
  KeepBestOf(training, state);
  EXPECT_EQ(state, counted);
  EXPECT_TRUE(HasStoppedEarly(training, state));
  training.early_stopping->metric = kByAccuracy;
  KeepBestOf(training, state);
  EXPECT_EQ(state.best, BestEvaluation{});
  EXPECT_EQ(state.evaluated_step, counted.evaluated_step);
  state = counted;
  training.early_stopping = std::nullopt;
  EXPECT_FALSE(HasStoppedEarly(training, state));
  KeepBestOf(training, state);
  EXPECT_EQ(state.best, BestEvaluation{});
}

TEST(RunStateTest, WhatWasCountedForAnotherTopKIsForgotten) {
  api::TrainingSpec training;
  training.evaluation = {.metrics = {api::TestMetric::kTopKCategoricalAccuracy}, .top_k = 3};
  training.early_stopping = api::EarlyStoppingSpec{.metric = kByTopK};
  RunState counted{.step = 0};
  for (const double value : {0.75, 0.5}) {
    const api::TestMetrics found = {{api::TestMetric::kTopKCategoricalAccuracy, value}};
    Evaluate(1, 0.25, *training.early_stopping, counted, {found, training.evaluation});
  }
  EXPECT_EQ(counted.best.value, 0.75);
  EXPECT_EQ(counted.best.without_improvement, 1);
  RunState state = counted;
  KeepBestOf(training, state);
  EXPECT_EQ(state, counted);
  training.evaluation.top_k = 2;
  KeepBestOf(training, state);
  EXPECT_EQ(state.best, BestEvaluation{});
}

// Keras' restore_best_weights: the best model is that of the run, whether or not it ends early.
TEST(RunStateTest, ARunThatRestoresItsBestModelDoesSoOnceAnEvaluationHasCounted) {
  api::TrainingSpec training;
  training.early_stopping = api::EarlyStoppingSpec{.patience = 3, .start_from_epoch = 1};
  RunState state{.step = 0};
  Evaluate(1, 0.25, *training.early_stopping, state);
  Evaluate(1, 0.25, *training.early_stopping, state);
  EXPECT_FALSE(RestoresBest(training, state));
  training.early_stopping->restore_best = true;
  EXPECT_TRUE(RestoresBest(training, state));
  state.best = {};
  EXPECT_FALSE(RestoresBest(training, state));
}

// As a checkpoint of an earlier version.
TEST(RunStateTest, ACheckpointWithoutABestEvaluationHasNone) {
  EXPECT_FALSE(RunStateToJson({.step = 0}).contains("best"));
  nlohmann::json json = RunStateToJson({.step = 0});
  json["best"] = {{"step", 3}, {"value", 1.0}, {"withoutImprovement", 2}, {"metric", "Later"}};
  EXPECT_EQ(RunStateFromJson(json)->best, BestEvaluation{});
  json["best"]["metric"] = "Loss";
  EXPECT_EQ(RunStateFromJson(json)->best.without_improvement, 2);
  json["best"]["withoutImprovement"] = -1;
  EXPECT_TRUE(absl::IsDataLoss(RunStateFromJson(json).status()));
}

}  // namespace
}  // namespace lockstep::train
