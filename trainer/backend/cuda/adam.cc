#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/cuda/optimizers/bound_optimizer.h"

namespace lockstep::train::cuda {
namespace {

class Adam final : public BoundOptimizer {
 public:
  Adam(const Device& device, const AdamSpec& spec)
      : BoundOptimizer("adam", device, spec.weight_decay, 2), spec_(spec) {}

  void Step() override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(UpdateByAdam), grid(), memory().values, memory().gradients,
                    slot(0), slot(1), memory().size, segments(), segment_count(), memory().step,
                    weight_decay(), spec_.beta1, spec_.beta2, spec_.epsilon, spec_.rate_ratio);
  }

 private:
  const AdamSpec spec_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const AdamSpec& spec) {
  return std::make_unique<Adam>(device, spec);
}

}  // namespace lockstep::train::cuda
