// Every op on every back end against the same op on `reference`: same inputs, same numbers. Images
// come once dense and once in the layout that the back end's own convolution puts out.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <tuple>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/backend/expect_close.h"
#include "trainer/check/op_cases.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {
namespace {

enum class InputLayout { kDense, kNative };

void ExpectSame(const OpOutputs& found, const OpOutputs& expected) {
  ExpectClose(found.dx, expected.dx, "dx");
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    ExpectClose(found.gradients[i], expected.gradients[i], "gradient " + std::to_string(i));
  }
  ASSERT_EQ(found.states.size(), expected.states.size());
  for (std::size_t i = 0; i < found.states.size(); ++i) {
    ExpectClose(found.states[i], expected.states[i], "state " + std::to_string(i));
  }
}

class OpsTest : public testing::TestWithParam<std::tuple<std::string, OpCase, InputLayout>> {
 protected:
  static TensorDesc InputDesc(Backend& backend) {
    const auto& [name, op_case, layout] = GetParam();
    if (layout == InputLayout::kDense) return {.shape = op_case.x};
    return NativeDesc(backend, op_case.x);
  }

  void Compare(bool training, bool want_dx) {
    const auto& [name, op_case, layout] = GetParam();
    const auto backend = MakeBackend({.name = name, .threads = 2});
    const auto oracle = MakeBackend({.name = "reference"});
    const TensorDesc dense{.shape = op_case.x};
    const auto expected_op = op_case.Make(*oracle, dense);
    const auto op = op_case.Make(*backend, InputDesc(*backend));
    ASSERT_EQ(op->output().shape, expected_op->output().shape);
    ASSERT_EQ(op->Parameters().size(), expected_op->Parameters().size());

    StepSettings step = op_case.step;
    step.training = training;
    if (step.valid == 0) step.valid = op_case.x[0];
    OpInputs inputs = RandomInputs(*expected_op, 1);
    // The gradient of padding rows is zero, as the loss makes it.
    const std::int64_t row = expected_op->output().shape.elements() / op_case.x[0];
    std::fill(inputs.dy.begin() + step.valid * row, inputs.dy.end(), 0.0f);

    OpOutputs found = RunOp(*backend, *op, inputs, step, want_dx);
    OpOutputs expected = RunOp(*oracle, *expected_op, inputs, step, want_dx);
    EXPECT_EQ(found.padding_fault, "");
    for (const float value : found.y) ASSERT_TRUE(std::isfinite(value)) << "y was not written";
    found.y.resize(static_cast<std::size_t>(step.valid * row));
    expected.y.resize(found.y.size());
    ExpectClose(found.y, expected.y, "y");
    ExpectSame(found, expected);
  }
};

TEST_P(OpsTest, TrainingMatchesReference) {
  Compare(/*training=*/true, /*want_dx=*/true);
}
TEST_P(OpsTest, TheFirstLayerNeedsNoInputGradient) {
  Compare(true, /*want_dx=*/false);
}
TEST_P(OpsTest, EvaluationMatchesReference) {
  Compare(/*training=*/false, /*want_dx=*/false);
}

// A model that overflows must be seen to do so: no op makes a number of what is none, and no relu
// that is a part of an op makes it 0.
TEST_P(OpsTest, WhatIsNotANumberStaysSo) {
  const auto& [name, op_case, layout] = GetParam();
  const auto backend = MakeBackend({.name = name, .threads = 2});
  const auto oracle = MakeBackend({.name = "reference"});
  const auto op = op_case.Make(*backend, InputDesc(*backend));
  const auto expected_op = op_case.Make(*oracle, {.shape = op_case.x});
  StepSettings step = op_case.step;
  step.training = false;
  step.valid = op_case.x[0];
  OpInputs inputs = RandomInputs(*expected_op, 1);
  inputs.x[0] = NAN;
  const OpOutputs found = RunOp(*backend, *op, inputs, step);
  const OpOutputs expected = RunOp(*oracle, *expected_op, inputs, step);
  int count = 0;
  for (std::size_t i = 0; i < expected.y.size(); ++i) {
    if (!std::isnan(expected.y[i])) continue;
    ASSERT_TRUE(std::isnan(found.y[i])) << "y[" << i << "] is " << found.y[i];
    ++count;
  }
  EXPECT_GT(count, 0);
}

// Ops keep nothing from step to step but what Bind gave them.
TEST_P(OpsTest, RunningTwiceGivesTheSameBits) {
  const auto& [name, op_case, layout] = GetParam();
  const auto backend = MakeBackend({.name = name, .threads = 2});
  const auto op = op_case.Make(*backend, InputDesc(*backend));
  const StepSettings step{.training = true, .valid = op_case.x[0]};
  const OpInputs inputs = RandomInputs(*op, 1);
  const OpOutputs first = RunOp(*backend, *op, inputs, step);
  RunOp(*backend, *op, RandomInputs(*op, 2), step);
  const OpOutputs second = RunOp(*backend, *op, inputs, step);
  EXPECT_EQ(first.y, second.y);
  EXPECT_EQ(first.dx, second.dx);
  EXPECT_EQ(first.gradients, second.gradients);
}

std::string CaseName(const testing::TestParamInfo<OpsTest::ParamType>& info) {
  const auto& [name, op_case, layout] = info.param;
  return TestName(name) + op_case.name + (layout == InputLayout::kDense ? "Dense" : "Native");
}

const auto kLayouts = testing::Values(InputLayout::kDense, InputLayout::kNative);
INSTANTIATE_TEST_SUITE_P(Conv, OpsTest,
                         testing::Combine(testing::ValuesIn(kBackendsUnderTest),
                                          testing::ValuesIn(ConvCases()), kLayouts),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Other, OpsTest,
                         testing::Combine(testing::ValuesIn(kBackendsUnderTest),
                                          testing::ValuesIn(OtherCases()), kLayouts),
                         CaseName);

}  // namespace
}  // namespace lockstep::train
