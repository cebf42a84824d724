// Runs the loss of any back end from host values to host values.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// `labels` or `targets`; the other is empty.
struct LossInputs {
  std::vector<float> logits;  // N,K
  std::vector<std::int32_t> labels = {};
  std::vector<float> targets = {};
  std::vector<float> weights;  // N
  double label_smoothing = 0;
};

struct LossOutputs {
  LossTotals totals;
  std::vector<float> dlogits;  // NaN where the loss did not write
};

LossOutputs RunLoss(Backend& backend, const LossInputs& inputs, float scale);

// Runs the elementwise loss of `spec`, whose rows and outputs are those of the inputs.
LossOutputs RunElementwiseLoss(Backend& backend, ElementwiseLossSpec spec, const LossInputs& inputs,
                               float scale);

}  // namespace lockstep::train
