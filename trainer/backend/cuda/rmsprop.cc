#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/cuda/optimizers/bound_optimizer.h"

namespace lockstep::train::cuda {
namespace {

class Rmsprop final : public BoundOptimizer {
 public:
  Rmsprop(const Device& device, const RmspropSpec& spec)
      : BoundOptimizer("rmsprop", device, spec.weight_decay, spec.momentum == 0 ? 1 : 2),
        spec_(spec) {}

  void Step() override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(UpdateByRmsprop), grid(), memory().values,
                    memory().gradients, slot(0), slot(1), memory().size, segments(),
                    segment_count(), memory().step, weight_decay(), spec_.rho, spec_.epsilon,
                    spec_.momentum);
  }

 private:
  const RmspropSpec spec_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const RmspropSpec& spec) {
  return std::make_unique<Rmsprop>(device, spec);
}

}  // namespace lockstep::train::cuda
