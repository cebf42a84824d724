// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, as in Keras: see
// reference/adam.cc.
#include <cmath>

#include "trainer/backend/cpu/bound_optimizer.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

// Computes base^exponent by squaring. std::pow may differ in the last bit between processors, but
// replicas on different processors must apply the same update.
double Power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

struct Adam {
  static constexpr const char* kName = "adam";
  AdamSpec spec;

  int Slots() const { return 2; }
  AdamFactors FactorsOf(const OptimizerStep& step) const {
    const double rate = step.learning_rate * std::sqrt(1 - Power(spec.beta2, step.step)) /
                        (1 - Power(spec.beta1, step.step));
    return {.rate = static_cast<float>(rate),
            .beta1 = spec.beta1,
            .beta2 = spec.beta2,
            .epsilon = spec.epsilon,
            .decay = step.learning_rate * spec.weight_decay,
            .scale = step.gradient_scale};
  }
  static void Run(const Kernels& kernels, const AdamFactors& factors, const UpdateRange& x) {
    kernels.adam(factors, x.gradients, x.values, x.slots[0], x.slots[1], x.size);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const AdamSpec& spec) {
  return std::make_unique<BoundOptimizer<Adam>>(device, Adam{spec});
}

}  // namespace lockstep::train::cpu
