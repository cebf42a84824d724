#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/trust_optimizer.h"

namespace lockstep::train::cpu {
namespace {

// See LarsSpec for the formula.
struct Lars {
  static constexpr const char* kName = "lars";
  LarsSpec spec;

  int Slots() const { return spec.momentum == 0 ? 0 : 1; }
  LarsFactors FactorsOf(const OptimizerStep& step) const {
    return {.rate = step.learning_rate,
            .momentum = spec.momentum,
            .decay = spec.weight_decay,
            .scale = step.gradient_scale,
            .nesterov = spec.nesterov};
  }
  static TrustSquares Measure(const Kernels& kernels, const LarsFactors& factors,
                              const UpdateRange& x) {
    return kernels.lars_squares(factors, x.gradients, x.values, x.size);
  }
  static void Run(const Kernels& kernels, const LarsFactors& factors, const UpdateRange& x) {
    kernels.lars(factors, x.gradients, x.values, x.slots[0], x.size);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const LarsSpec& spec) {
  return std::make_unique<TrustOptimizer<Lars>>(device, Lars{spec});
}

}  // namespace lockstep::train::cpu
