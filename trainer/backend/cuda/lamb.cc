#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/cuda/optimizers/trust_optimizer.h"

namespace lockstep::train::cuda {
namespace {

class Lamb final : public TrustOptimizer {
 public:
  Lamb(const Device& device, const LambSpec& spec)
      : TrustOptimizer("lamb", device, 1, 0, 2), spec_(spec) {}

 protected:
  void Measure() override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(MeasureForLamb), grid(), memory().values,
                    memory().gradients, slot(0), slot(1), tables().pieces, tables().segments,
                    memory().step, spec_.weight_decay, spec_.beta1, spec_.beta2, spec_.epsilon,
                    tables().squares);
  }
  void Update() override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(UpdateByLamb), grid(), memory().values, slot(0), slot(1),
                    tables().pieces, tables().segments, tables().trusts, memory().step,
                    spec_.weight_decay, spec_.beta1, spec_.beta2, spec_.epsilon);
  }

 private:
  const LambSpec spec_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const LambSpec& spec) {
  return std::make_unique<Lamb>(device, spec);
}

}  // namespace lockstep::train::cuda
