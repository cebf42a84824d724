#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/cuda/optimizers/trust_optimizer.h"

namespace lockstep::train::cuda {
namespace {

class Lars final : public TrustOptimizer {
 public:
  Lars(const Device& device, const LarsSpec& spec)
      : TrustOptimizer("lars", device, spec.trust_coefficient, spec.weight_decay,
                       spec.momentum == 0 ? 0 : 1),
        spec_(spec) {}

 protected:
  void Measure() override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(MeasureForLars), grid(), memory().values,
                    memory().gradients, tables().pieces, memory().step, tables().squares);
  }
  void Update() override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(UpdateByLars), grid(), memory().values, memory().gradients,
                    slot(0), tables().pieces, tables().segments, tables().trusts, memory().step,
                    spec_.weight_decay, spec_.momentum, spec_.nesterov);
  }

 private:
  const LarsSpec spec_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const LarsSpec& spec) {
  return std::make_unique<Lars>(device, spec);
}

}  // namespace lockstep::train::cuda
