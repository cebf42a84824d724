#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/trust_optimizer.h"

namespace lockstep::train::cpu {
namespace {

// See LambSpec for the formula.
struct Lamb {
  static constexpr const char* kName = "lamb";
  LambSpec spec;

  int Slots() const { return 2; }
  LambFactors FactorsOf(const OptimizerStep& step) const {
    const LambCorrections corrections = CorrectionsOf(spec, step);
    return {.rate = step.learning_rate,
            .beta1 = spec.beta1,
            .beta2 = spec.beta2,
            .epsilon = spec.epsilon,
            .m_correction = corrections.m,
            .v_correction = corrections.v,
            .decay = spec.weight_decay,
            .scale = step.gradient_scale};
  }
  // Updates m and v, too.
  static TrustSquares Measure(const Kernels& kernels, const LambFactors& factors,
                              const UpdateRange& x) {
    return kernels.lamb_moments(factors, x.gradients, x.values, x.slots[0], x.slots[1], x.size);
  }
  static void Run(const Kernels& kernels, const LambFactors& factors, const UpdateRange& x) {
    kernels.lamb(factors, x.slots[0], x.slots[1], x.values, x.size);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const LambSpec& spec) {
  return std::make_unique<TrustOptimizer<Lamb>>(device, Lamb{spec});
}

}  // namespace lockstep::train::cpu
