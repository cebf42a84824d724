// The loss, the optimizers and the conversions of every back end against `reference`.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/backend/op_bench.h"

namespace lockstep::train {
namespace {

class ElementwiseTest : public testing::TestWithParam<std::string> {
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

struct LossRun {
  LossOp::Result result;
  std::vector<float> dlogits;
};

LossRun RunLoss(Backend& backend, LossOp::Memory memory) {
  LossRun run{.result = {}, .dlogits = std::vector<float>(kRows * kClasses, NAN)};
  memory.dlogits = run.dlogits.data();
  const auto loss = backend.MakeSoftmaxCrossEntropy(kRows, kClasses);
  loss->Bind(memory);
  run.result = loss->Run(1.0f / kRows);
  return run;
}

void ExpectSame(const LossRun& found, const LossRun& expected) {
  EXPECT_NEAR(found.result.loss, expected.result.loss, 1e-5 * expected.result.loss);
  EXPECT_EQ(found.result.correct, expected.result.correct);
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
  const LossOp::Memory memory{
      .logits = logits.data(), .labels = labels.data(), .weights = weights.data()};
  ExpectSame(RunLoss(*backend_, memory), RunLoss(*oracle_, memory));
}

TEST_P(ElementwiseTest, CrossEntropyOfSoftTargetsMatchesReference) {
  const std::vector<float> logits = RandomValues(kRows * kClasses, 2);
  std::vector<float> targets(kRows * kClasses, 0.02f);
  for (std::size_t n = 0; n < kRows; ++n) targets[n * kClasses + n * 3 % kClasses] = 0.82f;
  const std::vector<float> weights(kRows, 1.0f);
  const LossOp::Memory memory{
      .logits = logits.data(), .one_hot = targets.data(), .weights = weights.data()};
  ExpectSame(RunLoss(*backend_, memory), RunLoss(*oracle_, memory));
}

TEST_P(ElementwiseTest, PaddingRowsMayHoldAnything) {
  std::vector<float> logits(kRows * kClasses, NAN);
  const std::vector<std::int32_t> labels(kRows, -1);
  const std::vector<float> weights(kRows, 0.0f);
  const LossRun run = RunLoss(
      *backend_, {.logits = logits.data(), .labels = labels.data(), .weights = weights.data()});
  EXPECT_EQ(run.result.loss, 0);
  EXPECT_EQ(run.result.correct, 0);
  EXPECT_EQ(run.dlogits, std::vector<float>(kRows * kClasses, 0.0f));
}

TEST_P(ElementwiseTest, ADivergedLogitMakesTheLossNotANumber) {
  std::vector<float> logits(kRows * kClasses, 0.0f);
  logits[5] = NAN;
  const std::vector<std::int32_t> labels(kRows, 1);
  const std::vector<float> weights(kRows, 1.0f);
  const LossRun run = RunLoss(
      *backend_, {.logits = logits.data(), .labels = labels.data(), .weights = weights.data()});
  EXPECT_TRUE(std::isnan(run.result.loss));
}

// Twenty steps with changing gradients, scales and learning rates.
std::vector<std::vector<float>> RunOptimizer(OptimizerOp& op, bool in_segments) {
  constexpr std::int64_t kSize = 1003;
  std::vector<std::vector<float>> memory = {RandomValues(kSize, 1)};
  memory.resize(1 + static_cast<std::size_t>(op.Slots()),
                std::vector<float>(static_cast<std::size_t>(kSize), 0.0f));
  std::vector<float> gradients(static_cast<std::size_t>(kSize));
  OptimizerMemory bound{
      .values = memory[0].data(), .gradients = gradients.data(), .slots = {}, .size = kSize};
  for (std::size_t i = 1; i < memory.size(); ++i) bound.slots.push_back(memory[i].data());
  if (in_segments) {
    bound.segments = {{.begin = 0, .end = 5, .decays = false},
                      {.begin = 5, .end = 700},
                      {.begin = 700, .end = kSize, .decays = false}};
  }
  op.Bind(bound);
  for (std::int64_t step = 1; step <= 20; ++step) {
    const std::vector<float> fresh = RandomValues(kSize, 10 + static_cast<std::uint64_t>(step));
    std::copy(fresh.begin(), fresh.end(), gradients.begin());
    op.Step({.learning_rate = 0.1f / static_cast<float>(step),
             .step = step,
             .gradient_scale = step % 2 == 0 ? 0.7f : 1.0f});
  }
  return memory;
}

void ExpectSameOptimizer(OptimizerOp& op, OptimizerOp& oracle) {
  ASSERT_EQ(op.Slots(), oracle.Slots());
  for (const bool in_segments : {false, true}) {
    const auto found = RunOptimizer(op, in_segments), expected = RunOptimizer(oracle, in_segments);
    for (std::size_t i = 0; i < found.size(); ++i) ExpectClose(found[i], expected[i], 2e-6f);
  }
}

TEST_P(ElementwiseTest, SgdMatchesReference) {
  for (const SgdSpec& spec : {SgdSpec{}, SgdSpec{.momentum = 0.9f},
                              SgdSpec{.momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f},
                              SgdSpec{.weight_decay = 0.1f}}) {
    ExpectSameOptimizer(*backend_->MakeOptimizer(spec), *oracle_->MakeOptimizer(spec));
  }
}

TEST_P(ElementwiseTest, AdamMatchesReference) {
  for (const AdamSpec& spec : {AdamSpec{}, AdamSpec{.beta1 = 0.8f, .weight_decay = 0.01f}}) {
    ExpectSameOptimizer(*backend_->MakeOptimizer(spec), *oracle_->MakeOptimizer(spec));
  }
}

TEST_P(ElementwiseTest, ConvertInputMatchesReference) {
  std::vector<std::uint8_t> bytes(1001);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  std::vector<float> found(bytes.size()), expected(bytes.size());
  backend_->ConvertInput(bytes.data(), found.data(), 1001, 1.0f / 255);
  oracle_->ConvertInput(bytes.data(), expected.data(), 1001, 1.0f / 255);
  ExpectClose(found, expected, 1e-7f);
}

TEST_P(ElementwiseTest, LayoutsKeepEveryElement) {
  const auto conv = backend_->MakeOp(
      Conv2dSpec{.x = {.shape = {2, 3, 8, 8}}, .filters = 20, .kernel_h = 3, .kernel_w = 3});
  for (const TensorDesc& desc : {conv->input(), conv->output(), conv->Parameters()[0].desc}) {
    const std::vector<float> values = RandomValues(desc.shape.elements(), 5);
    std::vector<float> native(desc.bytes() / sizeof(float)), back(values.size());
    backend_->FromDense(values.data(), desc, native.data());
    backend_->ToDense(desc, native.data(), back.data());
    EXPECT_EQ(back, values) << desc.shape.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ElementwiseTest, testing::ValuesIn(kBackendsUnderTest),
                         [](const auto& backend) { return backend.param; });

}  // namespace
}  // namespace lockstep::train
