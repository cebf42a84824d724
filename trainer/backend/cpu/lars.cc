#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/trust_optimizer.h"

namespace lockstep::train::cpu {
namespace {

// See LarsSpec for the formula.
struct Lars {
  static constexpr const char* kName = "lars";
  LarsSpec spec;

  int Slots() const { return spec.momentum == 0 ? 0 : 1; }
  LarsFactors FactorsOf(const OptimizerStep& step, bool decays) const {
    return {.rate = step.learning_rate,
            .momentum = spec.momentum,
            .decay = decays ? spec.weight_decay : 0,
            .scale = step.gradient_scale,
            .nesterov = spec.nesterov};
  }
  static TrustSquares Measure(const Kernels& kernels, const LarsFactors& factors,
                              const OptimizerMemory& x, const OptimizerPiece& piece) {
    return kernels.lars_squares(factors, x.gradients + piece.begin, x.values + piece.begin,
                                piece.end - piece.begin);
  }
  static void Run(const Kernels& kernels, const LarsFactors& factors, const OptimizerMemory& x,
                  const OptimizerPiece& piece) {
    kernels.lars(factors, x.gradients + piece.begin, x.values + piece.begin,
                 x.slots.empty() ? nullptr : x.slots[0] + piece.begin, piece.end - piece.begin);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const LarsSpec& spec) {
  return std::make_unique<TrustOptimizer<Lars>>(device, Lars{spec});
}

}  // namespace lockstep::train::cpu
