// Every op on every back end against the same op on `reference`: same inputs, same numbers. Images
// come once dense and once in the layout that the back end's own convolution puts out.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <tuple>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/backend/op_bench.h"

namespace lockstep::train {
namespace {

struct OpCase {
  std::string name;
  Shape x;
  std::function<std::unique_ptr<Op>(Backend&, const TensorDesc& x)> make;
  StepContext step{.training = true, .valid = 0};  // valid 0: all rows
};

enum class InputLayout { kDense, kNative };

// What the back end's convolutions give for `shape`; dense for matrices.
TensorDesc NativeDesc(Backend& backend, const Shape& shape) {
  if (shape.rank() != 4) return {.shape = shape};
  const auto conv = backend.MakeConv2d({.x = {.shape = {shape[0], 16, shape[2], shape[3]}},
                                        .filters = shape[1],
                                        .kernel_h = 3,
                                        .kernel_w = 3,
                                        .padding = Padding::kSame});
  return conv->output();
}

// Float32 rounding of sums of up to a few thousand terms, relative to the largest of the tensor.
void ExpectClose(const std::vector<float>& found, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  float largest = 1e-3f;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(std::isfinite(found[i])) << what << "[" << i << "] was not written";
    ASSERT_NEAR(found[i], expected[i], 2e-5f * largest) << what << "[" << i << "]";
  }
}

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
  void Compare(bool training, bool want_dx) {
    const auto& [name, op_case, layout] = GetParam();
    const auto backend = MakeBackend({.name = name, .threads = 2});
    const auto oracle = MakeBackend({.name = "reference"});
    const TensorDesc dense{.shape = op_case.x};
    const auto expected_op = op_case.make(*oracle, dense);
    const auto op = op_case.make(
        *backend, layout == InputLayout::kDense ? dense : NativeDesc(*backend, op_case.x));
    ASSERT_EQ(op->output().shape, expected_op->output().shape);
    ASSERT_EQ(op->Parameters().size(), expected_op->Parameters().size());

    StepContext step = op_case.step;
    step.training = training;
    if (step.valid == 0) step.valid = op_case.x[0];
    OpInputs inputs = RandomInputs(*expected_op, 1);
    // The gradient of padding rows is zero, as the loss makes it.
    const std::int64_t row = expected_op->output().shape.elements() / op_case.x[0];
    std::fill(inputs.dy.begin() + step.valid * row, inputs.dy.end(), 0.0f);

    OpOutputs found = RunOp(*backend, *op, inputs, step, want_dx);
    OpOutputs expected = RunOp(*oracle, *expected_op, inputs, step, want_dx);
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

// Ops keep nothing from step to step but what Bind gave them.
TEST_P(OpsTest, RunningTwiceGivesTheSameBits) {
  const auto& [name, op_case, layout] = GetParam();
  const auto backend = MakeBackend({.name = name, .threads = 2});
  const auto op = op_case.make(*backend, {.shape = op_case.x});
  const StepContext step{.training = true, .valid = op_case.x[0]};
  const OpInputs inputs = RandomInputs(*op, 1);
  const OpOutputs first = RunOp(*backend, *op, inputs, step);
  RunOp(*backend, *op, RandomInputs(*op, 2), step);
  const OpOutputs second = RunOp(*backend, *op, inputs, step);
  EXPECT_EQ(first.y, second.y);
  EXPECT_EQ(first.dx, second.dx);
  EXPECT_EQ(first.gradients, second.gradients);
}

OpCase ConvCase(std::string name, Shape x, Conv2dSpec spec) {
  return {std::move(name), std::move(x), [spec](Backend& backend, const TensorDesc& desc) mutable {
            spec.x = desc;
            return backend.MakeConv2d(spec);
          }};
}
OpCase DenseCase(std::string name, Shape x, DenseSpec spec) {
  return {std::move(name), std::move(x), [spec](Backend& backend, const TensorDesc& desc) mutable {
            spec.x = desc;
            return backend.MakeDense(spec);
          }};
}
OpCase PoolCase(std::string name, Shape x, Pool2dSpec spec) {
  return {std::move(name), std::move(x), [spec](Backend& backend, const TensorDesc& desc) mutable {
            spec.x = desc;
            return backend.MakePool2d(spec);
          }};
}
OpCase BatchNormCase(std::string name, Shape x, std::int64_t valid) {
  return {std::move(name),
          std::move(x),
          [](Backend& backend, const TensorDesc& desc) {
            return backend.MakeBatchNorm({.x = desc, .momentum = 0.9f});
          },
          {.training = true, .valid = valid}};
}

std::vector<OpCase> ConvCases() {
  const Activation relu = Activation::kRelu;
  return {
      ConvCase("ConvSame5x5OneChannel", {4, 1, 14, 14},
               {.filters = 32, .kernel_h = 5, .kernel_w = 5, .padding = Padding::kSame}),
      ConvCase("ConvSame5x5Relu", {3, 32, 7, 7},
               {.filters = 64,
                .kernel_h = 5,
                .kernel_w = 5,
                .padding = Padding::kSame,
                .activation = relu}),
      ConvCase("ConvValid3x3", {2, 3, 9, 8}, {.filters = 5, .kernel_h = 3, .kernel_w = 3}),
      ConvCase("ConvValidUneven", {2, 4, 9, 11},
               {.filters = 7, .kernel_h = 2, .kernel_w = 4, .stride_h = 2, .stride_w = 3}),
      ConvCase("ConvSameStrideTwo", {2, 3, 10, 7},
               {.filters = 6,
                .kernel_h = 3,
                .kernel_w = 4,
                .stride_h = 2,
                .stride_w = 2,
                .padding = Padding::kSame,
                .activation = relu}),
      ConvCase("ConvSameStrideOverKernel", {2, 3, 10, 10},
               {.filters = 4,
                .kernel_h = 1,
                .kernel_w = 2,
                .stride_h = 3,
                .stride_w = 3,
                .padding = Padding::kSame}),
      ConvCase("ConvWithoutBias", {2, 8, 6, 6},
               {.filters = 16, .kernel_h = 1, .kernel_w = 1, .bias = false, .activation = relu}),
      ConvCase("ConvOnePixelOut", {5, 2, 3, 3}, {.filters = 3, .kernel_h = 3, .kernel_w = 3}),
  };
}

std::vector<OpCase> OtherCases() {
  const Activation relu = Activation::kRelu;
  const PoolKind average = PoolKind::kAverage;
  return {
      DenseCase("Dense", {6, 37}, {.units = 10}),
      DenseCase("DenseRelu", {128, 50}, {.units = 33, .activation = relu}),
      DenseCase("DenseOnImage", {3, 20, 5, 4}, {.units = 9, .activation = relu}),
      DenseCase("DenseWithoutBias", {1, 8}, {.units = 1, .bias = false}),
      PoolCase("MaxPool", {2, 32, 8, 6}, {}),
      PoolCase("MaxPoolRelu", {2, 32, 9, 7}, {.activation = relu}),
      PoolCase("MaxPoolOverlapping", {2, 5, 9, 8},
               {.window_h = 3, .window_w = 2, .stride_h = 1, .stride_w = 1}),
      PoolCase("MaxPoolSame", {2, 3, 7, 5},
               {.window_h = 3, .window_w = 3, .padding = Padding::kSame, .activation = relu}),
      PoolCase("AveragePool", {2, 16, 9, 6}, {.kind = average}),
      PoolCase("AveragePoolSame", {2, 3, 7, 5},
               {.kind = average, .window_h = 3, .window_w = 3, .padding = Padding::kSame}),
      {"GlobalAveragePool",
       {3, 20, 5, 4},
       [](Backend& backend, const TensorDesc& x) { return backend.MakeGlobalAveragePool2d(x); }},
      {"Relu",
       {3, 20, 5, 4},
       [](Backend& backend, const TensorDesc& x) { return backend.MakeRelu(x); }},
      {"ReluMatrix",
       {3, 37},
       [](Backend& backend, const TensorDesc& x) { return backend.MakeRelu(x); }},
      {"Dropout",
       {5, 3, 5, 7},
       [](Backend& backend, const TensorDesc& x) {
         return backend.MakeDropout({.x = x, .rate = 0.3f, .layer = 4});
       },
       {.training = true, .step = 7, .seed = 11, .first_position = 1000}},
      BatchNormCase("BatchNormImage", {6, 20, 5, 4}, 0),
      BatchNormCase("BatchNormMatrix", {9, 37}, 0),
      BatchNormCase("BatchNormWithPaddingRows", {6, 20, 5, 4}, 4),
  };
}

std::string CaseName(const testing::TestParamInfo<OpsTest::ParamType>& info) {
  const auto& [name, op_case, layout] = info.param;
  return name + op_case.name + (layout == InputLayout::kDense ? "Dense" : "Native");
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
