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
  EXPECT_EQ(state.epochs_closed, 0);
  ApplyStep(Step(8, 10), kPlan, state);
  EXPECT_EQ(state.epochs_closed, 1);
  EXPECT_EQ(state.samples_lost, 0);
  EXPECT_EQ(state.samples_duplicated, 0);
  EXPECT_DOUBLE_EQ(state.loss_sum, 20);
}

TEST(RunStateTest, AStepThatIsLeftOutIsCountedAsLost) {
  RunState state{.step = 0};
  ApplyStep(Step(0, 4), kPlan, state);
  ApplyStep(Step(4, 4), kPlan, state);
  ApplyStep(Step(8, 10), kPlan, state);
  EXPECT_EQ(state.samples_lost, 4);
  EXPECT_EQ(state.samples_duplicated, 0);
}

TEST(RunStateTest, AStepThatIsCountedTwiceIsCountedAsDuplicated) {
  RunState state{.step = 0};
  ApplyStep(Step(0, 8), kPlan, state);
  ApplyStep(Step(4, 8), kPlan, state);
  ApplyStep(Step(8, 10), kPlan, state);
  EXPECT_EQ(state.samples_lost, 0);
  EXPECT_EQ(state.samples_duplicated, 4);
}

TEST(RunStateTest, OneSampleInTheWrongPlaceIsSeenThoughTheCountIsRight) {
  RunState state{.step = 0};
  ApplyStep(Step(0, 4), kPlan, state);
  ApplyStep(Step(3, 7), kPlan, state);  // 3 twice, 7 never
  ApplyStep(Step(8, 10), kPlan, state);
  EXPECT_EQ(state.samples_lost, 1);
  EXPECT_EQ(state.samples_duplicated, 1);
}

TEST(RunStateTest, TheNextEpochStartsFromZero) {
  RunState state{.step = 3, .loss_sum = 20, .correct = 10, .examples = 10, .epochs_closed = 1};
  ApplyStep(Step(0, 4), kPlan, state);
  EXPECT_EQ(state.examples, 4);
  EXPECT_DOUBLE_EQ(state.loss_sum, 8);
}

TEST(RunStateTest, SurvivesJson) {
  const RunState state{.step = 7, .loss_sum = 1.5, .correct = 3, .examples = 4,
                       .hash_sum = 0xfedcba9876543210, .epochs_closed = 2, .samples_lost = 1,
                       .samples_duplicated = 5, .evaluated_step = 6, .test_loss = 0.25,
                       .test_accuracy = 0.5};
  const auto read = RunStateFromJson(nlohmann::json::parse(RunStateToJson(state).dump()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, state);
}

TEST(RunStateTest, AMissingFieldIsNamed) {
  nlohmann::json json = RunStateToJson(RunState{});
  json.erase("hashSum");
  const auto read = RunStateFromJson(json);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(read.status().message().find("hashSum"), std::string::npos);
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
