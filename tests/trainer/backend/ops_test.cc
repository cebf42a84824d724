// Every op on every back end against the same op on `reference`: same inputs, same numbers. Images
// come once dense and once in the layout that the back end's own convolution puts out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/backend/expect_oracle.h"
#include "tests/trainer/backend/laid_out_case.h"
#include "trainer/check/oracle_run.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {
namespace {

class OpsTest : public ::testing::TestWithParam<std::tuple<std::string, LaidOutCase>> {
 protected:
  const LaidOutCase& laid_out() const { return std::get<LaidOutCase>(GetParam()); }
  const OpCase& op_case() const { return laid_out().op_case; }

  const std::unique_ptr<Backend> backend_ =
      MakeBackend({.name = std::get<std::string>(GetParam()), .threads = 2});
  const std::unique_ptr<Op> op_ = laid_out().Make(*backend_);
};

TEST_P(OpsTest, MatchesReference) {
  OracleRun run = AskOracle(op_case(), InputNumbers::kFloat32);
  EXPECT_EQ(op_->output().shape, run.output);
  {
    SCOPED_TRACE("in training");
    ExpectTraining(RunOp(*backend_, *op_, run.inputs, run.step), run);
  }
  {
    SCOPED_TRACE("in evaluation");
    StepSettings evaluation = run.step;
    evaluation.training = false;
    const OpOutputs found = RunOp(*backend_, *op_, run.inputs, evaluation);
    EXPECT_EQ(found.padding_fault, "");
    EXPECT_EQ(found.restore_fault, "");
    ExpectValidRows(found.y, run.evaluation, run);
    EXPECT_EQ(found.states, run.inputs.states);
  }
  SCOPED_TRACE("without a gradient for x, as in the first layer");
  run.training.dx.clear();
  ExpectTraining(RunOp(*backend_, *op_, run.inputs, run.step, Passes::kWithoutInputGradient), run);
}

// A model that overflows must be seen to do so: no op makes a number of what is none, and no relu
// that is a part of an op makes it 0.
TEST_P(OpsTest, WhatIsNotANumberStaysSo) {
  const auto oracle = MakeBackend({.name = "reference"});
  const auto expected_op = op_case().Make(*oracle, {.shape = op_case().x});
  StepSettings step = op_case().step;
  step.training = false;
  step.valid = op_case().x[0];
  OpInputs inputs = RandomInputs(*expected_op, 1);
  inputs.x[0] = NAN;
  const OpOutputs found = RunOp(*backend_, *op_, inputs, step);
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
  const StepSettings step{.training = true, .valid = op_case().x[0]};
  const OpInputs inputs = RandomInputs(*op_, 1);
  const OpOutputs first = RunOp(*backend_, *op_, inputs, step);
  RunOp(*backend_, *op_, RandomInputs(*op_, 2), step);
  const OpOutputs second = RunOp(*backend_, *op_, inputs, step);
  EXPECT_EQ(first.y, second.y);
  EXPECT_EQ(first.dx, second.dx);
  EXPECT_EQ(first.gradients, second.gradients);
}

// One valid row has a variance of 0: what stands in the others would be divided by sqrt(epsilon).
TEST(BatchNormPaddingTest, PaddingRowsAreZero) {
  const Shape image = {3, 20, 5, 4}, matrix = {3, 37};
  for (const std::string& name : kBackendsUnderTest) {
    const auto backend = MakeBackend({.name = name, .threads = 2});
    for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (const TensorDesc& x :
           {TensorDesc{.shape = matrix, .dtype = type}, TensorDesc{.shape = image, .dtype = type},
            NativeDesc(*backend, image, type)}) {
        SCOPED_TRACE(name + " " + x.shape.ToString() + " " + std::string(DTypeName(type)));
        const auto op = backend->MakeOp(BatchNormSpec{.x = x, .epsilon = 1e-9f});
        OpInputs inputs = RandomInputs(*op, 1);
        const auto row = inputs.x.size() / 3;
        const std::vector<float> zeros(2 * row, 0.0f);
        std::ranges::copy(zeros, inputs.dy.begin() + static_cast<std::ptrdiff_t>(row));
        for (const bool training : {true, false}) {
          const OpOutputs found = RunOp(*backend, *op, inputs, {.training = training, .valid = 1});
          EXPECT_TRUE(std::ranges::equal(std::span(found.y).subspan(row), zeros));
          if (!training) continue;
          EXPECT_TRUE(std::ranges::equal(std::span(found.dx).subspan(row), zeros));
        }
      }
    }
  }
}

std::string NameOfCase(const ::testing::TestParamInfo<OpsTest::ParamType>& info) {
  const auto& [name, laid_out] = info.param;
  return TestName(name) + laid_out.Name();
}

INSTANTIATE_TEST_SUITE_P(SmallCases, OpsTest,
                         ::testing::Combine(::testing::ValuesIn(kBackendsUnderTest),
                                            ::testing::ValuesIn(InEveryLayout(SmallCases()))),
                         NameOfCase);

}  // namespace
}  // namespace lockstep::train
