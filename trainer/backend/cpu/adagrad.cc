#include "trainer/backend/cpu/bound_optimizer.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

// See AdagradSpec for the formula.
struct Adagrad {
  static constexpr const char* kName = "adagrad";
  AdagradSpec spec;

  int Slots() const { return 1; }
  AdagradFactors FactorsOf(const OptimizerStep& step) const {
    return {.rate = step.learning_rate,
            .epsilon = spec.epsilon,
            .decay = step.learning_rate * spec.weight_decay,
            .scale = step.gradient_scale};
  }
  static void Run(const Kernels& kernels, const AdagradFactors& factors, const UpdateRange& x) {
    kernels.adagrad(factors, x.gradients, x.values, x.slots[0], x.size);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const AdagradSpec& spec) {
  return std::make_unique<BoundOptimizer<Adagrad>>(device, Adagrad{spec});
}

}  // namespace lockstep::train::cpu
