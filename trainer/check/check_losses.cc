#include "trainer/check/check_losses.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/check/check_case.h"
#include "trainer/check/run_loss.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {
namespace {

struct LossSize {
  std::int64_t rows, outputs;
};
std::vector<LossSize> SizesOf(bool large) {
  std::vector<LossSize> sizes = {{13, 10}};
  if (large) sizes.insert(sizes.end(), {{256, 1000}, {5003, 3}});
  return sizes;
}

using LossRun = std::function<LossOutputs(Backend&)>;

void CheckLoss(Backend& backend, CheckGroup& group, const std::string& name, const LossSize& size,
               const LossRun& run) {
  CheckCase result(group, name, fmt::format("[{},{}]", size.rows, size.outputs));
  result.Run([&] {
    const auto oracle = MakeBackend({.name = "reference"});
    const LossOutputs expected = run(*oracle), found = run(backend), again = run(backend);
    const auto total = [](double value) { return std::array{static_cast<float>(value)}; };
    result.Close("loss", total(found.totals.loss), total(expected.totals.loss));
    result.Close("correct", total(found.totals.correct), total(expected.totals.correct));
    result.Close("dlogits", found.dlogits, expected.dlogits);
    result.Same("loss of the second run", total(again.totals.loss), total(found.totals.loss));
    result.Same("dlogits of the second run", again.dlogits, found.dlogits);
  });
}

// The first row counts half, and the last is padding, which may hold anything.
LossInputs InputsOf(const LossSize& size, float largest) {
  LossInputs inputs{.logits = RandomValues(size.rows * size.outputs, 1),
                    .weights = std::vector<float>(static_cast<std::size_t>(size.rows), 1.0f)};
  for (float& value : inputs.logits) value *= largest;
  inputs.weights.front() = 0.5f;
  inputs.weights.back() = 0;
  inputs.logits.back() = NAN;
  return inputs;
}

LossInputs WithLabels(const LossSize& size, float largest) {
  LossInputs inputs = InputsOf(size, largest);
  for (std::int64_t i = 0; i < size.rows; ++i) {
    inputs.labels.push_back(static_cast<std::int32_t>(i * 7 % size.outputs));
  }
  return inputs;
}

// Each row's targets add up to 1.
LossInputs WithTargets(const LossSize& size, float largest) {
  LossInputs inputs = InputsOf(size, largest);
  const float rest = 0.2f / static_cast<float>(size.outputs);
  inputs.targets.assign(inputs.logits.size(), rest);
  for (std::int64_t i = 0; i < size.rows; ++i) {
    inputs.targets[static_cast<std::size_t>(i * size.outputs + i * 3 % size.outputs)] += 0.8f;
  }
  return inputs;
}

// Errors on both sides of Huber's delta, and one of 0.
LossInputs WithNumbers(const LossSize& size) {
  LossInputs inputs = InputsOf(size, 30);
  inputs.targets = RandomValues(size.rows * size.outputs, 2);
  for (float& value : inputs.targets) value = value > 0 ? 1.0f : 0.0f;
  inputs.logits[7] = inputs.targets[7];
  return inputs;
}

CheckGroup LossGroup(const char* name) {
  return {.name = name, .type = "float32", .tolerance = ToleranceOf(DType::kFloat32)};
}

struct NamedElementwiseLoss {
  std::string_view name;
  ElementwiseLossSpec spec;
};
const std::array kElementwiseLosses = {
    NamedElementwiseLoss{"BinaryCrossEntropy", {.loss = ElementwiseLoss::kBinaryCrossEntropy}},
    NamedElementwiseLoss{"SmoothedBinaryCrossEntropy",
                         {.loss = ElementwiseLoss::kBinaryCrossEntropy, .label_smoothing = 0.2}},
    NamedElementwiseLoss{"SquaredError", {.loss = ElementwiseLoss::kSquaredError}},
    NamedElementwiseLoss{"AbsoluteError", {.loss = ElementwiseLoss::kAbsoluteError}},
    NamedElementwiseLoss{"Huber", {.loss = ElementwiseLoss::kHuber, .delta = 3}}};

}  // namespace

CheckGroup CheckCrossEntropy(Backend& backend, bool large) {
  CheckGroup group = LossGroup("cross-entropy");
  for (const LossSize& size : SizesOf(large)) {
    // With the largest, exp overflows unless the row's maximum is subtracted.
    for (const float largest : {3.0f, 200.0f}) {
      for (const double smoothing : {0.0, 0.1}) {
        const std::string suffix = fmt::format("Within{}Smoothed{}", largest, smoothing);
        LossInputs labels = WithLabels(size, largest), targets = WithTargets(size, largest);
        labels.label_smoothing = targets.label_smoothing = smoothing;
        CheckLoss(backend, group, "Labels" + suffix, size,
                  [&](Backend& device) { return RunLoss(device, labels, 0.1f); });
        CheckLoss(backend, group, "Targets" + suffix, size,
                  [&](Backend& device) { return RunLoss(device, targets, 0.1f); });
      }
    }
  }
  return group;
}

CheckGroup CheckElementwiseLosses(Backend& backend, bool large) {
  CheckGroup group = LossGroup("elementwise losses");
  for (const LossSize& size : SizesOf(large)) {
    const LossInputs inputs = WithNumbers(size);
    for (const NamedElementwiseLoss& loss : kElementwiseLosses) {
      CheckLoss(backend, group, std::string(loss.name), size, [&](Backend& device) {
        return RunElementwiseLoss(device, loss.spec, inputs, 0.25f);
      });
    }
  }
  return group;
}

}  // namespace lockstep::train
