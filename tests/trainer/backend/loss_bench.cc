#include "tests/trainer/backend/loss_bench.h"

#include <limits>

#include "tests/trainer/backend/device_array.h"

namespace lockstep::train {

LossOutputs RunLoss(Backend& backend, const LossInputs& inputs, float scale) {
  const auto rows = std::ssize(inputs.weights), classes = std::ssize(inputs.logits) / rows;
  const DeviceArray<float> logits(backend, inputs.logits), weights(backend, inputs.weights);
  const DeviceArray<float> dlogits(
      backend, std::vector<float>(inputs.logits.size(), std::numeric_limits<float>::quiet_NaN()));
  const DeviceArray<std::int32_t> labels(backend, inputs.labels);
  const DeviceArray<float> one_hot(backend, inputs.one_hot), scales(backend, {scale});
  const DeviceArray<LossTotals> totals(backend, {LossTotals{}});
  const auto loss = backend.MakeSoftmaxCrossEntropy(
      {.rows = rows, .classes = classes, .label_smoothing = inputs.label_smoothing});
  loss->Bind({.logits = logits.data(),
              .dlogits = dlogits.data(),
              .labels = inputs.labels.empty() ? nullptr : labels.data(),
              .one_hot = inputs.one_hot.empty() ? nullptr : one_hot.data(),
              .weights = weights.data(),
              .scale = scales.data(),
              .totals = totals.data()});
  loss->Run();
  return {.totals = totals.Values()[0], .dlogits = dlogits.Values()};
}

}  // namespace lockstep::train
