// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, as in Keras: see
// reference/adam.cc.
#include "trainer/backend/cpu/bound_optimizer.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::cpu {
namespace {

struct Adam {
  static constexpr const char* kName = "adam";
  AdamSpec spec;

  int Slots() const { return 2; }
  AdamFactors FactorsOf(const OptimizerStep& step) const {
    return {.rate = RateOf(spec, step),
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
