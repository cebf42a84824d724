// Backward of every reference op against the slope of its own Forward. The scalar is sum(dy * y).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/trainer/backend/with_rows.h"
#include "trainer/backend/activation_names.h"
#include "trainer/check/op_cases.h"
#include "trainer/check/oracle_run.h"
#include "trainer/check/relu_jumps.h"
#include "trainer/check/run_loss.h"
#include "trainer/check/run_op.h"
#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

// A step of the differences. Sums of float32 are too coarse for smaller ones.
constexpr float kDelta = 1.0f / 512;

// The elements whose slope is compared: all of a few; of many the first, the last, and some that no
// extent of the tensor has a part in.
std::set<std::size_t> LookedAt(std::size_t size) {
  constexpr std::size_t kMost = 10;
  std::set<std::size_t> elements;
  if (size <= kMost) {
    for (std::size_t i = 0; i < size; ++i) elements.insert(i);
    return elements;
  }
  elements = {0, size - 1};
  const std::uint64_t key = DeriveKey(2026, size);
  for (std::uint64_t i = 0; elements.size() < kMost; ++i) {
    elements.insert(Philox(key, i, 0)[0] % size);
  }
  return elements;
}

class FiniteDifferenceTest : public ::testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    const OpCase& op_case = GetParam();
    const OracleRun run = AskOracle(op_case, InputNumbers::kFloat32);
    op_ = op_case.Make(*backend_, {.shape = op_case.x});
    step_ = run.step;
    inputs_ = run.inputs;
    ZeroGradientNearJumps(op_case.spec({.shape = op_case.x}), step_, 16 * kDelta, inputs_);
  }

  double Scalar() {
    const OpOutputs outputs = RunOp(*backend_, *op_, inputs_, step_, Passes::kForward);
    return std::inner_product(outputs.y.begin(), outputs.y.end(), inputs_.dy.begin(), 0.0);
  }

  double Slope(float& value, float delta) {
    const float kept = value;
    value = kept + delta;
    const double above = Scalar();
    value = kept - delta;
    const double below = Scalar();
    value = kept;
    return (above - below) / (2.0 * delta);
  }

  // `values` is a part of inputs_.
  void ExpectSlope(std::vector<float>& values, const std::vector<float>& gradient) {
    ASSERT_EQ(values.size(), gradient.size());
    double largest = 1;
    for (const float each : gradient) largest = std::max<double>(largest, std::abs(each));
    for (const std::size_t i : LookedAt(values.size())) {
      const double slope = Slope(values[i], kDelta);
      if (std::abs(slope - gradient[i]) <= 2e-3 * largest) continue;
      // The two together cancel out the errors of second order (Richardson's extrapolation).
      const double straightened = (4 * slope - Slope(values[i], 2 * kDelta)) / 3;
      ASSERT_NEAR(straightened, gradient[i], 2e-3 * largest) << "[" << i << "]";
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

// The slope of a maximum jumps where its element changes, so a pool's case is small and has no two
// elements that are close to each other.
OpCase MaxPool(std::string name, const Pool2dSpec& spec) {
  return CaseOf<Pool2dSpec>(std::move(name), {2, 2, 6, 5}, spec);
}
OpCase OfActivation(const NamedActivation& entry) {
  return CaseOf<ActivationSpec>(std::string(entry.name), {2, 3, 4, 3},
                                {.activation = entry.activation});
}

bool HasJumps(const OpSpec& spec) {
  const auto* pool = std::get_if<Pool2dSpec>(&spec);
  return std::holds_alternative<ActivationSpec>(spec) ||
         (pool != nullptr && pool->kind == PoolKind::kMax);
}

// With as many rows as `kLargest` elements have, but at least one that is not padding.
OpCase Shrunk(OpCase op_case) {
  constexpr std::int64_t kLargest = 4500;
  const std::int64_t rows = op_case.x[0], row = op_case.x.elements() / rows;
  const std::int64_t padding = op_case.step.valid == 0 ? 0 : rows - op_case.step.valid;
  const std::int64_t fewer = std::max(kLargest / row, padding + 1);
  return fewer < rows ? WithRows(std::move(op_case), fewer) : op_case;
}

std::vector<OpCase> SlopeCases() {
  std::vector<OpCase> cases;
  for (OpCase& op_case : SmallCases()) {
    if (!HasJumps(op_case.spec({.shape = op_case.x}))) cases.push_back(Shrunk(std::move(op_case)));
  }
  for (const NamedActivation& entry : kActivations) cases.push_back(OfActivation(entry));
  cases.push_back(MaxPool("SmallMaxPool", {}));
  cases.push_back(MaxPool("SmallMaxPoolRelu", {.relu = true}));
  cases.push_back(MaxPool(
      "SmallMaxPoolSameOverlapping",
      {.window_h = 3, .window_w = 3, .stride_h = 1, .stride_w = 2, .padding = Padding::kSame}));
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ops, FiniteDifferenceTest, ::testing::ValuesIn(SlopeCases()),
                         [](const auto& slope) { return slope.param.name; });

TEST(SlopeCasesTest, HaveEveryOp) {
  std::set<std::size_t> ops;
  for (const OpCase& op_case : SlopeCases()) ops.insert(op_case.spec({.shape = op_case.x}).index());
  EXPECT_EQ(ops.size(), std::variant_size_v<OpSpec>);
}

class FiniteDifferenceLossTest : public ::testing::TestWithParam<double> {};

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

INSTANTIATE_TEST_SUITE_P(LabelSmoothing, FiniteDifferenceLossTest, ::testing::Values(0.0, 0.1, 0.6),
                         [](const auto& smoothing) {
                           return std::to_string(static_cast<int>(100 * smoothing.param));
                         });

}  // namespace
}  // namespace lockstep::train
