// What decides a step's update, on every back end.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/trainer/backend/backends_under_test.h"
#include "trainer/check/run_op.h"
#include "trainer/check/run_update.h"

namespace lockstep::train {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class UpdateTest : public ::testing::TestWithParam<std::string> {
 protected:
  UpdateOutputs Run(const UpdateInputs& inputs) { return RunUpdate(*backend_, inputs); }
  std::unique_ptr<Backend> backend_ = MakeBackend({.name = GetParam(), .threads = 2});
};

struct Decision {
  std::string name;
  UpdateInputs inputs;
  UpdateOutcome outcome;
  UpdateGate gate;  // afterwards
};

std::vector<Decision> Decisions() {
  const StepTail bad_loss{.loss = kNaN};
  return {
      {"finite", {}, UpdateOutcome::kApplied, {}},
      {"finite after skips",
       {.gate = {.skipped_in_a_row = 2}},
       UpdateOutcome::kApplied,
       {.skipped_in_a_row = 0}},
      {"a bad loss", {.tail = bad_loss}, UpdateOutcome::kNotFinite, {.closed = true}},
      {"a bad gradient", {.gradients = {1, kNaN}}, UpdateOutcome::kNotFinite, {.closed = true}},
      {"an infinite gradient",
       {.gradients = {kInfinity}},
       UpdateOutcome::kNotFinite,
       {.closed = true}},
      {"a bad loss that may be skipped",
       {.settings = {.may_skip_in_a_row = 3}, .tail = bad_loss, .gate = {.skipped_in_a_row = 2}},
       UpdateOutcome::kSkipped,
       {.skipped_in_a_row = 3}},
      {"one more than may be skipped",
       {.settings = {.may_skip_in_a_row = 3}, .tail = bad_loss, .gate = {.skipped_in_a_row = 3}},
       UpdateOutcome::kNotFinite,
       {.closed = true, .skipped_in_a_row = 3}},
      {"no sum", {.is_summed = false}, UpdateOutcome::kNotSummed, {.closed = true}},
      {"no sum, which is not skipped",
       {.settings = {.may_skip_in_a_row = 3}, .is_summed = false, .gradients = {kNaN}},
       UpdateOutcome::kNotSummed,
       {.closed = true}},
      {"after the gate was closed",
       {.gate = {.closed = true}},
       UpdateOutcome::kClosed,
       {.closed = true}},
  };
}

TEST_P(UpdateTest, OnlyFiniteSumsOfAnOpenGateAreApplied) {
  for (const Decision& decision : Decisions()) {
    SCOPED_TRACE(decision.name);
    const UpdateOutputs found = Run(decision.inputs);
    const bool applied = decision.outcome == UpdateOutcome::kApplied;
    EXPECT_EQ(found.result.outcome, decision.outcome);
    EXPECT_EQ(found.update.applies, applied);
    EXPECT_EQ(found.gate.closed, decision.gate.closed);
    EXPECT_EQ(found.gate.skipped_in_a_row, decision.gate.skipped_in_a_row);
    EXPECT_EQ(found.states, std::vector<float>{applied ? 1.0f : 2.0f});
  }
}

// Another queue may still write to it.
TEST_P(UpdateTest, WhatWasNotSummedIsNotUsed) {
  const UpdateOutputs found =
      Run({.is_summed = false, .gradients = {kNaN}, .tail = {.loss = kNaN, .correct = 5}});
  EXPECT_EQ(found.result.outcome, UpdateOutcome::kNotSummed);
  EXPECT_EQ(found.result.gradient_norm, 0);
  EXPECT_EQ(found.result.tail.loss, 0);
  EXPECT_EQ(found.result.tail.correct, 0);
}

TEST_P(UpdateTest, TheLossScaleFallsWithOverflowsAndRisesWithoutThem) {
  const UpdateSettings settings{.adapts_loss_scale = true};
  const auto run = [&](const LossScale& scale, std::vector<float> gradients, float loss = 1) {
    return Run({.settings = settings,
                .gradients = std::move(gradients),
                .tail = {.loss = loss},
                .gate = {.loss_scale = scale}});
  };
  const UpdateOutputs overflow = run({.value = 8, .updates = 5}, {kInfinity});
  EXPECT_EQ(overflow.result.outcome, UpdateOutcome::kSkipped);
  EXPECT_EQ(overflow.gate.loss_scale, LossScale{.value = 4});
  EXPECT_EQ(overflow.result.loss_scale, overflow.gate.loss_scale);
  EXPECT_EQ(overflow.gate.skipped_in_a_row, 1);
  EXPECT_FALSE(overflow.gate.closed);

  const UpdateOutputs at_one = run({.value = 1}, {kInfinity});
  EXPECT_EQ(at_one.result.outcome, UpdateOutcome::kNotFinite) << "a smaller scale would not help";
  const UpdateOutputs bad_loss = run({.value = 8}, {1}, kNaN);
  EXPECT_EQ(bad_loss.result.outcome, UpdateOutcome::kNotFinite) << "nor here";

  const UpdateOutputs applied = run({.value = 8, .updates = 5}, {3, 4});
  EXPECT_EQ(applied.result.outcome, UpdateOutcome::kApplied);
  EXPECT_EQ(applied.gate.loss_scale, (LossScale{.value = 8, .updates = 6}));
  const UpdateOutputs grown = run({.value = 8, .updates = LossScale::kGrowthSteps - 1}, {1});
  EXPECT_EQ(grown.gate.loss_scale, LossScale{.value = 16});
  EXPECT_EQ(grown.update.gradient_scale, 0.125f) << "that of the step's own gradients";
  const UpdateOutputs largest =
      run({.value = LossScale::kLargest, .updates = LossScale::kGrowthSteps - 1}, {1});
  EXPECT_EQ(largest.gate.loss_scale.value, LossScale::kLargest);
}

TEST_P(UpdateTest, TheNormAndTheUpdateAreThoseOfTheUnscaledGradient) {
  const UpdateOutputs found = Run({.settings = {.clip_norm = 2.5, .adapts_loss_scale = true},
                                   .gradients = {24, 0, -32},
                                   .gate = {.loss_scale = {.value = 8}}});
  EXPECT_EQ(found.result.gradient_norm, 5.0);
  EXPECT_EQ(found.update.gradient_scale, 0.0625f);
}

TEST_P(UpdateTest, SettingsAndTotalsArePassedOn) {
  StepTail tail{.loss = 3, .correct = 2, .stop_requests = 1};
  SetExamples(tail, 4);
  SetHash(tail, 0x0123456789abcdefu);
  const UpdateOutputs found = Run({.settings = {.learning_rate = 0.25f, .step = 7}, .tail = tail});
  EXPECT_EQ(found.update.learning_rate, 0.25f);
  EXPECT_EQ(found.update.step, 7);
  EXPECT_EQ(found.update.gradient_scale, 1.0f);
  EXPECT_EQ(found.result.tail.loss, 3.0f);
  EXPECT_EQ(found.result.tail.correct, 2.0f);
  EXPECT_EQ(ExamplesOf(found.result.tail), 4);
  EXPECT_EQ(found.result.tail.stop_requests, 1.0f);
  EXPECT_EQ(HashOf(found.result.tail), 0x0123456789abcdefu);
}

TEST_P(UpdateTest, SkippedStepsAreNoUpdatesOfTheOptimizer) {
  const UpdateGate gate{.skipped_steps = 2};
  const UpdateOutputs applied = Run({.settings = {.step = 7}, .gate = gate});
  EXPECT_EQ(applied.update.step, 5);
  EXPECT_EQ(applied.gate.skipped_steps, 2);
  const UpdateSettings may_skip{.step = 7, .may_skip_in_a_row = 1};
  EXPECT_EQ(Run({.settings = may_skip, .gradients = {kNaN}, .gate = gate}).gate.skipped_steps, 3);
  const UpdateSettings must_not{.step = 7};
  EXPECT_EQ(Run({.settings = must_not, .gradients = {kNaN}, .gate = gate}).gate.skipped_steps, 2);
}

TEST_P(UpdateTest, AGradientAboveTheNormIsScaledDownToIt) {
  const std::vector<float> gradients = {3, 0, -4};
  EXPECT_EQ(Run({.gradients = gradients}).result.gradient_norm, 5.0);
  const UpdateOutputs above = Run({.settings = {.clip_norm = 2}, .gradients = gradients});
  EXPECT_EQ(above.update.gradient_scale, 0.4f);
  EXPECT_EQ(above.result.gradient_norm, 5.0) << "before it is clipped";
  EXPECT_EQ(Run({.settings = {.clip_norm = 5}, .gradients = gradients}).update.gradient_scale, 1);
}

TEST_P(UpdateTest, TheNormHasTheSameBitsEverywhere) {
  const std::vector<float> gradients = RandomValues(100'003, 1);
  const auto oracle = MakeBackend({.name = "reference"});
  const double expected = RunUpdate(*oracle, {.gradients = gradients}).result.gradient_norm;
  EXPECT_NEAR(expected * expected, 100'003 / 3.0, 1000);
  EXPECT_EQ(Run({.gradients = gradients}).result.gradient_norm, expected);
}

INSTANTIATE_TEST_SUITE_P(Backends, UpdateTest, ::testing::ValuesIn(kBackendsUnderTest),
                         [](const auto& backend) { return TestName(backend.param); });

}  // namespace
}  // namespace lockstep::train
