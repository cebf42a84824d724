#include "trainer/backend/cpu/bound_optimizer.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

// See RmspropSpec for the formula.
struct Rmsprop {
  static constexpr const char* kName = "rmsprop";
  RmspropSpec spec;

  int Slots() const { return spec.momentum == 0 ? 1 : 2; }
  RmspropFactors FactorsOf(const OptimizerStep& step) const {
    return {.rate = step.learning_rate,
            .rho = spec.rho,
            .epsilon = spec.epsilon,
            .momentum = spec.momentum,
            .decay = step.learning_rate * spec.weight_decay,
            .scale = step.gradient_scale};
  }
  static void Run(const Kernels& kernels, const RmspropFactors& factors, const UpdateRange& x) {
    kernels.rmsprop(factors, x.gradients, x.values, x.slots[0], x.slots[1], x.size);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const RmspropSpec& spec) {
  return std::make_unique<BoundOptimizer<Rmsprop>>(device, Rmsprop{spec});
}

}  // namespace lockstep::train::cpu
