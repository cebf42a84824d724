// The losses of ElementwiseLossSpec, for one output y and its target t.
#pragma once

#include <algorithm>
#include <cmath>

#include "trainer/backend/op_spec.h"
#include "trainer/core/device_code.h"

namespace lockstep::train {

// See ElementwiseLossSpec and LossOp. `slope`: dloss/dy.
struct ElementwiseTerm {
  double loss = 0, slope = 0, correct = 0;
};

LOCKSTEP_ALSO_ON_GPU inline ElementwiseTerm BinaryCrossEntropyOf(double y, double t,
                                                                 double smoothing) {
  const double smoothed = (1 - smoothing) * t + 0.5 * smoothing;
  return {.loss = std::max(y, 0.0) - y * smoothed + std::log1p(std::exp(-std::abs(y))),
          .slope = 1 / (1 + std::exp(-y)) - smoothed,
          .correct = (y > 0) == (t > 0.5) ? 1.0 : 0.0};
}

LOCKSTEP_ALSO_ON_GPU inline ElementwiseTerm HuberOf(double y, double t, double delta) {
  const double error = std::abs(y - t);
  const double loss = error <= delta ? 0.5 * error * error : delta * (error - 0.5 * delta);
  return {.loss = loss, .slope = std::clamp(y - t, -delta, delta), .correct = error};
}

LOCKSTEP_ALSO_ON_GPU inline ElementwiseTerm ElementwiseTermOf(ElementwiseLoss loss, double y,
                                                              double t, double delta,
                                                              double label_smoothing) {
  const double error = y - t;
  switch (loss) {
    case ElementwiseLoss::kBinaryCrossEntropy:
      return BinaryCrossEntropyOf(y, t, label_smoothing);
    case ElementwiseLoss::kSquaredError:
      return {.loss = error * error, .slope = 2 * error, .correct = std::abs(error)};
    case ElementwiseLoss::kAbsoluteError: {
      const double sign = y > t ? 1 : y < t ? -1 : error;  // not a number if one of them is not
      return {.loss = std::abs(error), .slope = sign, .correct = std::abs(error)};
    }
    case ElementwiseLoss::kHuber:
      return HuberOf(y, t, delta);
  }
  return {};
}

}  // namespace lockstep::train
