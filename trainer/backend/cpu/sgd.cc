#include "trainer/backend/cpu/bound_optimizer.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

// See SgdSpec for the formula.
struct Sgd {
  static constexpr const char* kName = "sgd";
  SgdSpec spec;

  int Slots() const { return spec.momentum == 0 ? 0 : 1; }
  SgdFactors FactorsOf(const OptimizerStep& step) const {
    return {.rate = step.learning_rate,
            .momentum = spec.momentum,
            .decay = step.learning_rate * spec.weight_decay,
            .scale = step.gradient_scale,
            .nesterov = spec.nesterov};
  }
  static void Run(const Kernels& kernels, const SgdFactors& factors, const UpdateRange& x) {
    kernels.sgd(factors, x.gradients, x.values, x.slots[0], x.size);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const SgdSpec& spec) {
  return std::make_unique<BoundOptimizer<Sgd>>(device, Sgd{spec});
}

}  // namespace lockstep::train::cpu
