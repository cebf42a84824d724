#include "trainer/check/run_loss.h"

#include <limits>

#include "trainer/check/device_array.h"

namespace lockstep::train {
namespace {

LossOutputs Run(Backend& backend, LossOp& loss, const LossInputs& inputs, float scale) {
  const DeviceArray<float> logits(backend, inputs.logits), weights(backend, inputs.weights);
  const DeviceArray<float> dlogits(
      backend, std::vector<float>(inputs.logits.size(), std::numeric_limits<float>::quiet_NaN()));
  const DeviceArray<std::int32_t> labels(backend, inputs.labels);
  const DeviceArray<float> targets(backend, inputs.targets), scales(backend, {scale});
  const DeviceArray<LossTotals> totals(backend, {LossTotals{}});
  loss.Bind({.logits = logits.data(),
             .dlogits = dlogits.data(),
             .labels = inputs.labels.empty() ? nullptr : labels.data(),
             .targets = inputs.targets.empty() ? nullptr : targets.data(),
             .weights = weights.data(),
             .scale = scales.data(),
             .totals = totals.data()});
  loss.Run();
  return {.totals = totals.Values()[0], .dlogits = dlogits.Values()};
}

}  // namespace

LossOutputs RunLoss(Backend& backend, const LossInputs& inputs, float scale) {
  const auto rows = std::ssize(inputs.weights), classes = std::ssize(inputs.logits) / rows;
  const auto loss = backend.MakeSoftmaxCrossEntropy(
      {.rows = rows, .classes = classes, .label_smoothing = inputs.label_smoothing});
  return Run(backend, *loss, inputs, scale);
}

LossOutputs RunElementwiseLoss(Backend& backend, ElementwiseLossSpec spec, const LossInputs& inputs,
                               float scale) {
  spec.rows = std::ssize(inputs.weights);
  spec.outputs = std::ssize(inputs.logits) / spec.rows;
  return Run(backend, *backend.MakeElementwiseLoss(spec), inputs, scale);
}

}  // namespace lockstep::train
