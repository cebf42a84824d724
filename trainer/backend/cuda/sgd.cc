#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/cuda/optimizers/bound_optimizer.h"

namespace lockstep::train::cuda {
namespace {

class Sgd final : public BoundOptimizer {
 public:
  Sgd(const Device& device, const SgdSpec& spec)
      : BoundOptimizer("sgd", device, spec.weight_decay, spec.momentum == 0 ? 0 : 1), spec_(spec) {}

  void Step() override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(UpdateBySgd), grid(), memory().values, memory().gradients,
                    slot(0), memory().size, segments(), segment_count(), memory().step,
                    weight_decay(), spec_.momentum, spec_.nesterov);
  }

 private:
  const SgdSpec spec_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const SgdSpec& spec) {
  return std::make_unique<Sgd>(device, spec);
}

}  // namespace lockstep::train::cuda
