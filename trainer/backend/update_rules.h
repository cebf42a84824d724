// The formulas of the optimizers, for one value: see op_spec.h. `g` is the scaled gradient, `rate`
// the learning rate. Weight decay is done already, except with LARS and LAMB, which say where it
// goes. Replicas on different processors must apply the same update, so each formula rounds after
// the same operations, in the same order, as that of the back end "cpu" (cpu/kernels/optimizers.cc,
// trust_optimizers.cc and muon.cc).
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/backend/op_spec.h"
#include "trainer/backend/step_block.h"
#include "trainer/backend/trust_squares.h"
#include "trainer/core/device_code.h"

namespace lockstep::train {

// What a value that decays is multiplied by before its update.
LOCKSTEP_ALSO_ON_GPU inline float KeptByDecay(float weight_decay, const OptimizerStep& step) {
  return 1 - step.learning_rate * weight_decay;
}

// `velocity`: null without momentum.
LOCKSTEP_ALSO_ON_GPU inline void UpdateValue(const SgdSpec& spec, float g, float rate, float& value,
                                             float* velocity) {
  const float move = -rate * g;
  if (velocity == nullptr) {
    value += move;
    return;
  }
  *velocity = spec.momentum * *velocity + move;
  value = spec.nesterov ? value + spec.momentum * *velocity + move : value + *velocity;
}

// Computes base^exponent by squaring. std::pow may differ in the last bit between processors, but
// replicas on different processors must apply the same update.
LOCKSTEP_ALSO_ON_GPU inline double Power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

// Adam's learning rate, corrected for the bias of m and v.
LOCKSTEP_ALSO_ON_GPU inline float RateOf(const AdamSpec& spec, const OptimizerStep& step) {
  return static_cast<float>(step.learning_rate * spec.rate_ratio *
                            std::sqrt(1 - Power(spec.beta2, step.step)) /
                            (1 - Power(spec.beta1, step.step)));
}

// As Adam and LAMB do: m += (1 - b1) * (g - m), v += (1 - b2) * (g * g - v)
template <typename Spec>
LOCKSTEP_ALSO_ON_GPU inline void UpdateMoments(const Spec& spec, float g, float& m, float& v) {
  m += (1 - spec.beta1) * (g - m);
  v += (1 - spec.beta2) * (g * g - v);
}

// UpdateMoments, then w -= rate * m / (sqrt(v) + epsilon)
LOCKSTEP_ALSO_ON_GPU inline void UpdateValue(const AdamSpec& spec, float g, float rate,
                                             float& value, float& m, float& v) {
  UpdateMoments(spec, g, m, v);
  value -= rate * m / (std::sqrt(v) + spec.epsilon);
}

// `velocity`: null without momentum.
LOCKSTEP_ALSO_ON_GPU inline void UpdateValue(const RmspropSpec& spec, float g, float rate,
                                             float& value, float& square, float* velocity) {
  square += (1 - spec.rho) * (g * g - square);
  const float move = rate * g / std::sqrt(square + spec.epsilon);
  if (velocity == nullptr) {
    value -= move;
    return;
  }
  *velocity = spec.momentum * *velocity + move;
  value -= *velocity;
}

LOCKSTEP_ALSO_ON_GPU inline void UpdateValue(const AdagradSpec& spec, float g, float rate,
                                             float& value, float& sum) {
  sum += g * g;
  value -= rate * g / std::sqrt(sum + spec.epsilon);
}

// LARS: `g` includes the decay, `rate` the trust.
LOCKSTEP_ALSO_ON_GPU inline void UpdateValue(const LarsSpec& spec, float g, float rate,
                                             float& value, float* velocity) {
  UpdateValue(SgdSpec{.momentum = spec.momentum, .nesterov = spec.nesterov}, g, rate, value,
              velocity);
}

LOCKSTEP_ALSO_ON_GPU inline float TrustRatio(const TrustSquares& squares, double coefficient,
                                             double decay) {
  const double values = std::sqrt(squares.values), update = std::sqrt(squares.update);
  if (values == 0 || update == 0) return 1;
  return static_cast<float>(coefficient * values / (update + decay * values));
}
LOCKSTEP_ALSO_ON_GPU inline float TrustOf(const LarsSpec& spec, const TrustSquares& squares) {
  return TrustRatio(squares, spec.trust_coefficient, spec.weight_decay);
}
LOCKSTEP_ALSO_ON_GPU inline float TrustOf(const LambSpec&, const TrustSquares& squares) {
  return TrustRatio(squares, 1, 0);
}

// What LAMB's m and v are multiplied by, because they begin at 0.
struct LambCorrections {
  float m = 1, v = 1;
};
LOCKSTEP_ALSO_ON_GPU inline LambCorrections CorrectionsOf(const LambSpec& spec,
                                                          const OptimizerStep& step) {
  return {.m = static_cast<float>(1 / (1 - Power(spec.beta1, step.step))),
          .v = static_cast<float>(1 / (1 - Power(spec.beta2, step.step)))};
}

// LAMB's u, once m and v are updated. `decay`: 0 if the value does not.
LOCKSTEP_ALSO_ON_GPU inline float DirectionOf(const LambSpec& spec,
                                              const LambCorrections& corrections, float decay,
                                              float value, float m, float v) {
  return corrections.m * m / (std::sqrt(corrections.v * v) + spec.epsilon) + decay * value;
}

// Muon's m, and its u, which is returned.
LOCKSTEP_ALSO_ON_GPU inline float MuonDirection(float momentum, bool nesterov, float g, float& m) {
  m = momentum * m + g;
  return nesterov ? g + momentum * m : m;
}
// What u is divided by, given the sum of its squares. Above 0.
LOCKSTEP_ALSO_ON_GPU inline float MuonDivisor(double squares) {
  return static_cast<float>(std::sqrt(squares)) + 1e-7f;
}

}  // namespace lockstep::train
