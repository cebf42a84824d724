#include "trainer/train/run_state.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lockstep::train
