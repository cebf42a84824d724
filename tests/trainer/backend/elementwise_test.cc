// The loss, the optimizers and the conversions of every back end against `reference`.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "tests/trainer/backend/backends_under_test.h"
#include "trainer/check/device_array.h"
#include "trainer/check/run_loss.h"
#include "trainer/check/run_op.h"
#include "trainer/check/run_optimizer.h"

namespace lockstep::train {
namespace {

class ElementwiseTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend_ = MakeBackend({.name = GetParam(), .threads = 2});
  std::unique_ptr<Backend> oracle_ = MakeBackend({.name = "reference"});
};

void ExpectClose(const std::vector<float>& found, const std::vector<float>& expected,
                 float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance) << "[" << i << "]";
  }
}

constexpr std::int64_t kRows = 13, kClasses = 10;

void ExpectSame(const LossOutputs& found, const LossOutputs& expected) {
  EXPECT_NEAR(found.totals.loss, expected.totals.loss, 1e-5 * expected.totals.loss);
  EXPECT_EQ(found.totals.correct, expected.totals.correct);
  ExpectClose(found.dlogits, expected.dlogits, 1e-6f);
}

TEST_P(ElementwiseTest, CrossEntropyOfLabelsMatchesReference) {
  std::vector<float> logits = RandomValues(kRows * kClasses, 1);
  for (float& value : logits) value *= 200;  // exp overflows without the shift
  std::vector<std::int32_t> labels(kRows);
  std::vector<float> weights(kRows, 1.0f);
  for (std::int32_t i = 0; i < kRows; ++i)
    labels[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i % kClasses);
  weights[3] = 0.5f;
  weights[kRows - 1] = 0;
  const LossInputs inputs{.logits = logits, .labels = labels, .weights = weights};
  ExpectSame(RunLoss(*backend_, inputs, 1.0f / kRows), RunLoss(*oracle_, inputs, 1.0f / kRows));
}

TEST_P(ElementwiseTest, CrossEntropyOfSoftTargetsMatchesReference) {
  const std::vector<float> logits = RandomValues(kRows * kClasses, 2);
  std::vector<float> targets(kRows * kClasses, 0.02f);
  for (std::size_t n = 0; n < kRows; ++n) targets[n * kClasses + n * 3 % kClasses] = 0.82f;
  const std::vector<float> weights(kRows, 1.0f);
  const LossInputs inputs{.logits = logits, .targets = targets, .weights = weights};
  ExpectSame(RunLoss(*backend_, inputs, 1.0f / kRows), RunLoss(*oracle_, inputs, 1.0f / kRows));
}

TEST_P(ElementwiseTest, SmoothedCrossEntropyMatchesReference) {
  std::vector<float> logits = RandomValues(kRows * kClasses, 3);
  for (float& value : logits) value *= 20;
  std::vector<std::int32_t> labels(kRows);
  std::vector<float> weights(kRows, 1.0f), targets(kRows * kClasses, 0.02f);
  for (std::size_t n = 0; n < kRows; ++n) {
    labels[n] = static_cast<std::int32_t>(n * 7 % kClasses);
    targets[n * kClasses + n * 3 % kClasses] = 0.82f;
  }
  weights[2] = 0.5f;
  weights[kRows - 1] = 0;
  for (const double smoothing : {0.1, 0.9}) {
    const LossInputs of_labels{
        .logits = logits, .labels = labels, .weights = weights, .label_smoothing = smoothing};
    const LossInputs of_targets{
        .logits = logits, .targets = targets, .weights = weights, .label_smoothing = smoothing};
    for (const LossInputs& inputs : {of_labels, of_targets}) {
      ExpectSame(RunLoss(*backend_, inputs, 1.0f / kRows), RunLoss(*oracle_, inputs, 1.0f / kRows));
    }
  }
}

TEST_P(ElementwiseTest, PaddingRowsMayHoldAnything) {
  std::vector<float> logits(kRows * kClasses, NAN);
  const std::vector<std::int32_t> labels(kRows, -1);
  const std::vector<float> weights(kRows, 0.0f);
  const LossOutputs run =
      RunLoss(*backend_, {.logits = logits, .labels = labels, .weights = weights}, 1);
  EXPECT_EQ(run.totals.loss, 0);
  EXPECT_EQ(run.totals.correct, 0);
  EXPECT_EQ(run.dlogits, std::vector<float>(kRows * kClasses, 0.0f));
}

TEST_P(ElementwiseTest, ADivergedLogitMakesTheLossNotANumber) {
  std::vector<float> logits(kRows * kClasses, 0.0f);
  logits[5] = NAN;
  const std::vector<std::int32_t> labels(kRows, 1);
  const std::vector<float> weights(kRows, 1.0f);
  const LossOutputs run =
      RunLoss(*backend_, {.logits = logits, .labels = labels, .weights = weights}, 1);
  EXPECT_TRUE(std::isnan(run.totals.loss));
}

// Errors on both sides of Huber's delta, and one of 0; a weight of 0 makes a row padding.
LossInputs NumberInputs() {
  LossInputs inputs{.logits = RandomValues(kRows * kClasses, 4),
                    .targets = RandomValues(kRows * kClasses, 5),
                    .weights = std::vector<float>(kRows, 1.0f)};
  for (float& value : inputs.logits) value *= 30;
  for (float& value : inputs.targets) value = value > 0 ? 1.0f : 0.0f;
  inputs.logits[7] = inputs.targets[7];
  inputs.weights[2] = 0.5f;
  inputs.weights[kRows - 1] = 0;
  return inputs;
}

const std::vector<ElementwiseLossSpec> kElementwiseLosses = {
    {.loss = ElementwiseLoss::kBinaryCrossEntropy},
    {.loss = ElementwiseLoss::kBinaryCrossEntropy, .label_smoothing = 0.2},
    {.loss = ElementwiseLoss::kSquaredError},
    {.loss = ElementwiseLoss::kAbsoluteError},
    {.loss = ElementwiseLoss::kHuber},
    {.loss = ElementwiseLoss::kHuber, .delta = 3}};

TEST_P(ElementwiseTest, LossesOfNumbersMatchReference) {
  for (const ElementwiseLossSpec& spec : kElementwiseLosses) {
    const LossOutputs found = RunElementwiseLoss(*backend_, spec, NumberInputs(), 0.25f),
                      expected = RunElementwiseLoss(*oracle_, spec, NumberInputs(), 0.25f);
    EXPECT_NEAR(found.totals.loss, expected.totals.loss, 1e-5 * expected.totals.loss);
    EXPECT_NEAR(found.totals.correct, expected.totals.correct, 1e-5 * expected.totals.correct);
    ExpectClose(found.dlogits, expected.dlogits, 1e-6f);
  }
}

// So many that a GPU divides their sum among blocks.
TEST_P(ElementwiseTest, TheLossOfManyNumbersMatchesReference) {
  constexpr std::int64_t kMany = 5003, kOutputs = 3;
  const LossInputs inputs{.logits = RandomValues(kMany * kOutputs, 6),
                          .targets = RandomValues(kMany * kOutputs, 7),
                          .weights = std::vector<float>(kMany, 1.0f)};
  const LossOutputs found = RunElementwiseLoss(*backend_, {}, inputs, 0.25f),
                    expected = RunElementwiseLoss(*oracle_, {}, inputs, 0.25f);
  EXPECT_NEAR(found.totals.loss, expected.totals.loss, 1e-5 * expected.totals.loss);
  EXPECT_NEAR(found.totals.correct, expected.totals.correct, 1e-5 * expected.totals.correct);
  ExpectClose(found.dlogits, expected.dlogits, 1e-6f);
}

TEST_P(ElementwiseTest, ADivergedOutputMakesEveryLossOfNumbersNotANumber) {
  LossInputs inputs = NumberInputs();
  inputs.logits[1] = NAN;
  inputs.logits[kRows * kClasses - 1] = NAN;  // padding, which is not read
  for (const ElementwiseLossSpec& spec : kElementwiseLosses) {
    const LossOutputs run = RunElementwiseLoss(*backend_, spec, inputs, 1);
    EXPECT_TRUE(std::isnan(run.totals.loss)) << static_cast<int>(spec.loss);
    EXPECT_TRUE(std::isnan(run.dlogits[1])) << static_cast<int>(spec.loss);
    EXPECT_EQ(run.dlogits.back(), 0.0f);
  }
}

std::vector<std::vector<float>> RunOptimizer(Backend& backend, const OptimizerRule& rule,
                                             bool in_segments) {
  const OptimizerOutputs run =
      RunOptimizer(backend, rule, {.size = 1003, .in_segments = in_segments});
  for (std::size_t i = 0; i < run.changed.size(); ++i) {
    EXPECT_EQ(run.changed[i], i + 1 != kNotAppliedStep) << "step " << i + 1;
  }
  return run.tensors;
}

void ExpectSameOptimizer(Backend& backend, Backend& oracle, const OptimizerRule& rule) {
  for (const bool in_segments : {false, true}) {
    const auto found = RunOptimizer(backend, rule, in_segments),
               expected = RunOptimizer(oracle, rule, in_segments);
    ASSERT_EQ(found.size(), expected.size()) << "slots";
    for (std::size_t i = 0; i < found.size(); ++i) ExpectClose(found[i], expected[i], 2e-6f);
  }
}

TEST_P(ElementwiseTest, SgdMatchesReference) {
  for (const SgdSpec& spec : {SgdSpec{}, SgdSpec{.momentum = 0.9f},
                              SgdSpec{.momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f},
                              SgdSpec{.weight_decay = 0.1f}}) {
    ExpectSameOptimizer(*backend_, *oracle_, spec);
  }
}

TEST_P(ElementwiseTest, AdamMatchesReference) {
  for (const AdamSpec& spec : {AdamSpec{}, AdamSpec{.beta1 = 0.8f, .weight_decay = 0.01f}}) {
    ExpectSameOptimizer(*backend_, *oracle_, spec);
  }
}

TEST_P(ElementwiseTest, RmspropMatchesReference) {
  for (const RmspropSpec& spec :
       {RmspropSpec{}, RmspropSpec{.rho = 0.7f, .epsilon = 1e-3f, .weight_decay = 0.01f},
        RmspropSpec{.momentum = 0.8f, .weight_decay = 0.01f}}) {
    ExpectSameOptimizer(*backend_, *oracle_, spec);
  }
}

TEST_P(ElementwiseTest, AdagradMatchesReference) {
  for (const AdagradSpec& spec :
       {AdagradSpec{}, AdagradSpec{.epsilon = 1e-3f, .weight_decay = 0.01f}}) {
    ExpectSameOptimizer(*backend_, *oracle_, spec);
  }
}

TEST_P(ElementwiseTest, LarsMatchesReference) {
  for (const LarsSpec& spec :
       {LarsSpec{.trust_coefficient = 0.1f}, LarsSpec{.momentum = 0.9f, .weight_decay = 0.1f},
        LarsSpec{.momentum = 0.9f, .nesterov = true, .trust_coefficient = 0.01f}}) {
    ExpectSameOptimizer(*backend_, *oracle_, spec);
  }
}

TEST_P(ElementwiseTest, LambMatchesReference) {
  for (const LambSpec& spec :
       {LambSpec{}, LambSpec{.beta1 = 0.8f, .epsilon = 1e-3f, .weight_decay = 0.1f}}) {
    ExpectSameOptimizer(*backend_, *oracle_, spec);
  }
}

// Their errors: a product's rounding grows by the iteration's slope, up to 3.4 at each of its
// steps.
constexpr float kMuonTolerance = 2e-5f;

TEST_P(ElementwiseTest, MuonMatchesReference) {
  for (const MuonSpec& spec :
       {MuonSpec{.matrices = MatricesToUpdate()},
        MuonSpec{.matrices = MatricesToUpdate(),
                 .momentum = 0.8f,
                 .nesterov = false,
                 .steps = 2,
                 .rms_rate = 0,
                 .adam = {.beta1 = 0.8f, .weight_decay = 0.1f, .rate_ratio = 0.5f}},
        MuonSpec{}}) {
    for (const bool in_segments : {false, true}) {
      const auto found = RunOptimizer(*backend_, spec, in_segments),
                 expected = RunOptimizer(*oracle_, spec, in_segments);
      for (std::size_t i = 0; i < found.size(); ++i) {
        ExpectClose(found[i], expected[i], kMuonTolerance);
      }
    }
  }
}

// Without matrices, Muon is AdamW.
TEST_P(ElementwiseTest, MuonWithoutMatricesIsAdam) {
  const AdamSpec adam{.beta1 = 0.8f, .weight_decay = 0.1f};
  EXPECT_EQ(RunOptimizer(*backend_, MuonSpec{.adam = adam}, /*in_segments=*/true),
            RunOptimizer(*backend_, adam, /*in_segments=*/true));
}

// Matrices of several pieces, which several threads share.
TEST_P(ElementwiseTest, MuonOfLargeMatricesMatchesReference) {
  const MuonSpec spec{.matrices = {{.begin = 3, .rows = 150, .columns = 160},
                                   {.begin = 24'010, .rows = 520, .columns = 40}}};
  const OptimizerRun run{.size = 45'000};
  const auto found = RunOptimizer(*backend_, spec, run).tensors,
             expected = RunOptimizer(*oracle_, spec, run).tensors;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ExpectClose(found[i], expected[i], kMuonTolerance);
  }
}

// A tensor of several pieces, each of which several threads or a block of threads measure.
TEST_P(ElementwiseTest, TheTrustOfALargeTensorMatchesReference) {
  for (const OptimizerRule& rule : std::vector<OptimizerRule>{
           LarsSpec{.momentum = 0.9f, .weight_decay = 0.1f}, LambSpec{.weight_decay = 0.1f}}) {
    const OptimizerRun run{.size = 50'021};
    const auto found = RunOptimizer(*backend_, rule, run).tensors,
               expected = RunOptimizer(*oracle_, rule, run).tensors;
    for (std::size_t i = 0; i < found.size(); ++i) ExpectClose(found[i], expected[i], 2e-6f);
  }
}

// A GPU runs the reference's formulas.
TEST(OptimizerBitsTest, AreTheSameOnAGpu) {
  const auto gpu = MakeBackend({.name = "cuda"}), oracle = MakeBackend({.name = "reference"});
  for (const OptimizerRule& rule : std::vector<OptimizerRule>{
           SgdSpec{.momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f},
           AdamSpec{.weight_decay = 0.01f}, RmspropSpec{.momentum = 0.8f, .weight_decay = 0.01f},
           AdagradSpec{.weight_decay = 0.01f}}) {
    EXPECT_EQ(RunOptimizer(*gpu, rule, /*in_segments=*/true),
              RunOptimizer(*oracle, rule, /*in_segments=*/true))
        << "rule " << rule.index();
  }
}

TEST_P(ElementwiseTest, ConvertInputMatchesReference) {
  std::vector<std::uint8_t> bytes(1001);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  const std::vector<float> zeros(bytes.size());
  const DeviceArray<float> found(*backend_, zeros), expected(*oracle_, zeros);
  backend_->ConvertInput(bytes.data(), found.data(), 1001, InputScaling::ToUnit());
  oracle_->ConvertInput(bytes.data(), expected.data(), 1001, InputScaling::ToUnit());
  EXPECT_EQ(found.Values(), expected.Values());
}

// To the bit: replicas on different processors see the same samples.
TEST_P(ElementwiseTest, EachChannelIsScaledByItsOwnNumbers) {
  constexpr std::int64_t kPlane = 5 * 67, kImages = 41;
  const InputScaling scaling{.channels = 3,
                             .plane = kPlane,
                             .center = {123.675f, 116.28f, 103.53f},
                             .factor = {0.0171f, 0.0175f, 0.0174f}};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(kImages * 3 * kPlane));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  const DeviceArray<float> device(*backend_, std::vector<float>(bytes.size()));
  backend_->ConvertInput(bytes.data(), device.data(), std::ssize(bytes), scaling);
  const std::vector<float> found = device.Values();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t channel = i / kPlane % 3;
    ASSERT_EQ(found[i],
              (static_cast<float>(bytes[i]) - scaling.center[channel]) * scaling.factor[channel])
        << "element " << i;
  }
}

TEST_P(ElementwiseTest, LayoutsKeepEveryElement) {
  const auto conv = backend_->MakeOp(
      Conv2dSpec{.x = {.shape = {2, 3, 8, 8}}, .filters = 20, .kernel_h = 3, .kernel_w = 3});
  for (const TensorDesc& desc : {conv->input(), conv->output(), conv->Parameters()[0].desc}) {
    const std::vector<float> values = RandomValues(desc.shape.elements(), 5);
    const DeviceArray<float> native(*backend_, std::vector<float>(desc.bytes() / sizeof(float)));
    std::vector<float> back(values.size());
    backend_->FromDense(values.data(), desc, native.data());
    backend_->ToDense(desc, native.data(), back.data());
    EXPECT_EQ(back, values) << desc.shape.ToString();
  }
}

TEST_P(ElementwiseTest, ScaleAndAccumulateMatchArithmetic) {
  const std::vector<float> x = RandomValues(40'001, 1), y = RandomValues(40'001, 2);
  const DeviceArray<float> scaled(*backend_, y), summed(*backend_, y), operand(*backend_, x);
  backend_->Scale(operand.data(), scaled.data(), 40'001, 0.3f);
  backend_->Accumulate(operand.data(), summed.data(), 40'001);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(scaled.Values()[i], 0.3f * x[i]) << i;
    ASSERT_EQ(summed.Values()[i], y[i] + x[i]) << i;
    i += 997;
  }
}

TEST_P(ElementwiseTest, AllAreFiniteUnlessOneIsNot) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values(10'000, 3e38f);
  DeviceArray<float> device(*backend_, values);
  EXPECT_TRUE(backend_->AllFinite(device.data(), 10'000));
  EXPECT_TRUE(backend_->AllFinite(device.data(), 0));
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{5000}, values.size() - 1}) {
      std::vector<float> broken = values;
      broken[at] = bad;
      device.Set(broken);
      EXPECT_FALSE(backend_->AllFinite(device.data(), 10'000));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ElementwiseTest, ::testing::ValuesIn(kBackendsUnderTest),
                         [](const auto& backend) { return TestName(backend.param); });

}  // namespace
}  // namespace lockstep::train
