#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/cuda/optimizers/bound_optimizer.h"

namespace lockstep::train::cuda {
namespace {

class Adagrad final : public BoundOptimizer {
 public:
  Adagrad(const Device& device, const AdagradSpec& spec)
      : BoundOptimizer("adagrad", device, spec.weight_decay, 1), spec_(spec) {}

  void Step() override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(UpdateByAdagrad), grid(), memory().values,
                    memory().gradients, slot(0), memory().size, segments(), segment_count(),
                    memory().step, weight_decay(), spec_.epsilon);
  }

 private:
  const AdagradSpec spec_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const AdagradSpec& spec) {
  return std::make_unique<Adagrad>(device, spec);
}

}  // namespace lockstep::train::cuda
