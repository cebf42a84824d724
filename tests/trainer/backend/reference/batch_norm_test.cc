#include <gtest/gtest.h>

#include "trainer/check/run_op.h"

namespace lockstep::train {
namespace {

const Shape kShape = {5, 2, 2, 2};

class BatchNormTest : public ::testing::Test {
 protected:
  OpOutputs Run(const OpInputs& inputs, const StepSettings& step) {
    return RunOp(*backend_, *op_, inputs, step);
  }

  std::unique_ptr<Backend> backend_ = MakeBackend({.name = "reference"});
  std::unique_ptr<Op> op_ =
      backend_->MakeOp(BatchNormSpec{.x = {.shape = kShape}, .momentum = 0.5f});
};

TEST_F(BatchNormTest, PaddingRowsDoNotMoveTheStatistics) {
  OpInputs inputs = RandomInputs(*op_, 1), other = inputs;
  const std::int64_t row = 8;
  std::fill(other.x.begin() + 3 * row, other.x.end(), 1000.0f);
  std::fill(inputs.dy.begin() + 3 * row, inputs.dy.end(), 0.0f);
  other.dy = inputs.dy;
  const OpOutputs a = Run(inputs, {.valid = 3}), b = Run(other, {.valid = 3});
  EXPECT_EQ(a.states, b.states);
  EXPECT_EQ(a.gradients, b.gradients);
  EXPECT_EQ(a.dx, b.dx);
}

TEST_F(BatchNormTest, WithoutValidRowsNothingMoves) {
  OpInputs inputs = RandomInputs(*op_, 1);
  std::fill(inputs.dy.begin(), inputs.dy.end(), 0.0f);
  const OpOutputs outputs = Run(inputs, {.valid = 0});
  EXPECT_EQ(outputs.states, inputs.states);
  EXPECT_EQ(outputs.dx, std::vector<float>(inputs.x.size(), 0.0f));
  for (const auto& gradient : outputs.gradients) EXPECT_EQ(gradient, (std::vector<float>{0, 0}));
}

TEST_F(BatchNormTest, EvaluationUsesTheMovingAverages) {
  OpInputs inputs = RandomInputs(*op_, 1);
  inputs.parameters = {{2, 2}, {1, 1}};
  inputs.states = {{0.5f, 0.5f}, {4 - 1e-3f, 4 - 1e-3f}};
  const OpOutputs outputs = Run(inputs, {.training = false, .valid = 5});
  EXPECT_EQ(outputs.states, inputs.states);
  for (std::size_t i = 0; i < inputs.x.size(); ++i) {
    EXPECT_NEAR(outputs.y[i], (inputs.x[i] - 0.5f) + 1, 1e-6f);
  }
}

}  // namespace
}  // namespace lockstep::train
