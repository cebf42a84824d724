// Backward of every reference op against the slope of its own Forward. The scalar is sum(dy * y).
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "trainer/backend/activation_names.h"
#include "trainer/check/run_loss.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {
namespace {

struct SlopeCase {
  std::string name;
  std::function<std::unique_ptr<Op>(Backend&)> make;
  StepSettings step{.training = true, .valid = 0};  // valid 0: all rows
};

class FiniteDifferenceTest : public testing::TestWithParam<SlopeCase> {
 protected:
  void SetUp() override {
    op_ = GetParam().make(*backend_);
    step_ = GetParam().step;
    const std::int64_t rows = op_->input().shape[0];
    if (step_.valid == 0) step_.valid = rows;
    inputs_ = RandomInputs(*op_, 3);
    const std::int64_t row = op_->output().shape.elements() / rows;
    std::fill(inputs_.dy.begin() + step_.valid * row, inputs_.dy.end(), 0.0f);
  }

  double Scalar() {
    const OpOutputs outputs = RunOp(*backend_, *op_, inputs_, step_);
    return std::inner_product(outputs.y.begin(), outputs.y.end(), inputs_.dy.begin(), 0.0);
  }

  // `values` is a part of inputs_.
  void ExpectSlope(std::vector<float>& values, const std::vector<float>& gradient) {
    ASSERT_EQ(values.size(), gradient.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float kept = values[i], delta = 1.0f / 512;
      values[i] = kept + delta;
      const double above = Scalar();
      values[i] = kept - delta;
      const double below = Scalar();
      values[i] = kept;
      ASSERT_NEAR((above - below) / (2.0 * delta), gradient[i], 2e-3) << "[" << i << "]";
    }
  }

  std::unique_ptr<Backend> backend_ = MakeBackend({.name = "reference"});
  std::unique_ptr<Op> op_;
  StepSettings step_;
  OpInputs inputs_;
};

TEST_P(FiniteDifferenceTest, InputGradient) {
  ExpectSlope(inputs_.x, RunOp(*backend_, *op_, inputs_, step_).dx);
}

TEST_P(FiniteDifferenceTest, ParameterGradients) {
  const OpOutputs outputs = RunOp(*backend_, *op_, inputs_, step_);
  for (std::size_t i = 0; i < inputs_.parameters.size(); ++i) {
    ExpectSlope(inputs_.parameters[i], outputs.gradients[i]);
  }
}

SlopeCase Conv(std::string name, Conv2dSpec spec) {
  spec.x = {.shape = {2, 3, 6, 5}};
  return {std::move(name), [spec](Backend& backend) { return backend.MakeOp(spec); }};
}
SlopeCase Depthwise(std::string name, DepthwiseConv2dSpec spec) {
  spec.x = {.shape = {2, 3, 6, 5}};
  return {std::move(name), [spec](Backend& backend) { return backend.MakeOp(spec); }};
}
SlopeCase Pool(std::string name, Pool2dSpec spec) {
  spec.x = {.shape = {2, 2, 6, 5}};
  return {std::move(name), [spec](Backend& backend) { return backend.MakeOp(spec); }};
}
SlopeCase Dense(std::string name, DenseSpec spec) {
  spec.x = {.shape = {3, 2, 2, 2}};
  return {std::move(name), [spec](Backend& backend) { return backend.MakeOp(spec); }};
}
SlopeCase LayerNorm(std::string name, Shape shape, LayerNormSpec spec = {}) {
  spec.x.shape = std::move(shape);
  return {std::move(name), [spec](Backend& backend) { return backend.MakeOp(spec); }};
}
SlopeCase BatchNorm(std::string name, Shape shape, std::int64_t valid) {
  return {
      std::move(name),
      [shape](Backend& backend) { return backend.MakeOp(BatchNormSpec{.x = {.shape = shape}}); },
      {.training = true, .valid = valid}};
}

const TensorDesc kImage{.shape = {2, 3, 4, 3}};
INSTANTIATE_TEST_SUITE_P(
    Ops, FiniteDifferenceTest,
    testing::Values(
        Conv("ConvValid", {.filters = 2, .kernel_h = 3, .kernel_w = 2}),
        Conv("ConvSameRelu",
             {.filters = 2, .kernel_h = 3, .kernel_w = 4, .padding = Padding::kSame, .relu = true}),
        Conv("ConvStridedWithoutBias", {.filters = 2,
                                        .kernel_h = 2,
                                        .kernel_w = 3,
                                        .stride_h = 2,
                                        .stride_w = 2,
                                        .padding = Padding::kSame,
                                        .bias = false}),
        Depthwise("Depthwise", {.kernel_h = 3, .kernel_w = 2}),
        Depthwise("DepthwiseSameReluOfTwo", {.depth_multiplier = 2,
                                             .kernel_h = 3,
                                             .kernel_w = 3,
                                             .stride_h = 2,
                                             .stride_w = 2,
                                             .padding = Padding::kSame,
                                             .relu = true}),
        Dense("Dense", {.units = 3}), Dense("DenseRelu", {.units = 3, .relu = true}),
        Pool("MaxPool", {}), Pool("MaxPoolRelu", {.relu = true}),
        Pool("MaxPoolSameOverlapping", {.window_h = 3,
                                        .window_w = 3,
                                        .stride_h = 1,
                                        .stride_w = 2,
                                        .padding = Padding::kSame}),
        Pool("AveragePool", {.kind = PoolKind::kAverage}),
        Pool("AveragePoolSame",
             {.kind = PoolKind::kAverage, .window_h = 3, .window_w = 3, .padding = Padding::kSame}),
        SlopeCase{
            "GlobalAveragePool",
            [](Backend& backend) { return backend.MakeOp(GlobalAveragePool2dSpec{.x = kImage}); }},
        SlopeCase{
            "Dropout",
            [](Backend& backend) { return backend.MakeOp(DropoutSpec{.x = kImage, .rate = 0.4f}); },
            {.training = true, .step = 5, .seed = 1}},
        SlopeCase{"AddRelu",
                  [](Backend& backend) {
                    return backend.MakeOp(AddSpec{.x = {kImage, kImage, kImage}, .relu = true});
                  }},
        SlopeCase{"Concatenate",
                  [](Backend& backend) {
                    return backend.MakeOp(
                        ConcatenateSpec{.x = {kImage, {.shape = {2, 1, 4, 3}}, kImage}});
                  }},
        SlopeCase{"Flatten",
                  [](Backend& backend) { return backend.MakeOp(FlattenSpec{.x = kImage}); }},
        BatchNorm("BatchNormImage", {3, 2, 3, 2}, 0), BatchNorm("BatchNormMatrix", {6, 3}, 0),
        BatchNorm("BatchNormPadded", {5, 2, 2, 2}, 3), LayerNorm("LayerNormImage", {3, 4, 3, 2}),
        LayerNorm("LayerNormMatrix", {6, 5}),
        LayerNorm("LayerNormWithoutBeta", {6, 5}, {.center = false}),
        LayerNorm("LayerNormWithoutGamma", {6, 5}, {.scale = false})),
    [](const auto& slope) { return slope.param.name; });

std::vector<SlopeCase> ActivationCases() {
  std::vector<SlopeCase> cases;
  for (const NamedActivation& entry : kActivations) {
    cases.push_back({std::string(entry.name), [activation = entry.activation](Backend& backend) {
                       return backend.MakeOp(ActivationSpec{.x = kImage, .activation = activation});
                     }});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Activations, FiniteDifferenceTest, testing::ValuesIn(ActivationCases()),
                         [](const auto& slope) { return slope.param.name; });

class FiniteDifferenceLossTest : public testing::TestWithParam<double> {};

TEST_P(FiniteDifferenceLossTest, CrossEntropyGradientIsTheSlopeOfTheLoss) {
  constexpr std::int64_t kRows = 4, kClasses = 3;
  const auto backend = MakeBackend({.name = "reference"});
  LossInputs inputs{.logits = RandomValues(kRows * kClasses, 1),
                    .labels = {2, 0, 1, 1},
                    .weights = {1, 0.5f, 0, 2},
                    .label_smoothing = GetParam()};
  std::vector<float>& logits = inputs.logits;
  const std::vector<float> dlogits = RunLoss(*backend, inputs, 0.5f).dlogits;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float kept = logits[i], delta = 1.0f / 512;
    logits[i] = kept + delta;
    const double above = RunLoss(*backend, inputs, 0.5f).totals.loss;
    logits[i] = kept - delta;
    const double below = RunLoss(*backend, inputs, 0.5f).totals.loss;
    logits[i] = kept;
    EXPECT_NEAR(0.5 * (above - below) / (2.0 * delta), dlogits[i], 1e-5) << i;
  }
}

TEST(FiniteDifferenceElementwiseLossTest, GradientIsTheSlopeOfTheLoss) {
  constexpr std::size_t kRows = 4, kOutputs = 3;
  const auto backend = MakeBackend({.name = "reference"});
  LossInputs inputs{.logits = RandomValues(kRows * kOutputs, 1),
                    .targets = RandomValues(kRows * kOutputs, 2),
                    .weights = {1, 0.5f, 0, 2}};
  const auto total = [&](const ElementwiseLossSpec& spec) {
    return RunElementwiseLoss(*backend, spec, inputs, 0.5f).totals.loss;
  };
  for (const ElementwiseLossSpec& spec : std::vector<ElementwiseLossSpec>{
           {.loss = ElementwiseLoss::kBinaryCrossEntropy, .label_smoothing = 0.3},
           {.loss = ElementwiseLoss::kSquaredError},
           {.loss = ElementwiseLoss::kAbsoluteError},
           {.loss = ElementwiseLoss::kHuber, .delta = 0.5}}) {
    const std::vector<float> dlogits = RunElementwiseLoss(*backend, spec, inputs, 0.5f).dlogits;
    for (std::size_t i = 0; i < dlogits.size(); ++i) {
      const float kept = inputs.logits[i], delta = 1.0f / 4096;
      inputs.logits[i] = kept + delta;
      const double above = total(spec);
      inputs.logits[i] = kept - delta;
      const double below = total(spec);
      inputs.logits[i] = kept;
      EXPECT_NEAR(0.5 * (above - below) / (2.0 * delta), dlogits[i], 1e-4)
          << static_cast<int>(spec.loss) << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(LabelSmoothing, FiniteDifferenceLossTest, testing::Values(0.0, 0.1, 0.6),
                         [](const auto& smoothing) {
                           return std::to_string(static_cast<int>(100 * smoothing.param));
                         });

}  // namespace
}  // namespace lockstep::train
