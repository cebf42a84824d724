#include <algorithm>

#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/loss.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/loss_checks.h"

namespace lockstep::train::cuda {
namespace {

// Enough blocks to fill a GPU. Their number depends only on the spec, so the sums have the same
// bits on every GPU.
std::int64_t BlocksFor(const ElementwiseLossSpec& spec) {
  constexpr std::int64_t kMostBlocks = 1024, kValuesPerThread = 4;
  const std::int64_t values = spec.rows * spec.outputs;
  return std::clamp<std::int64_t>(values / (kValuesPerThread * Device::kThreads), 1, kMostBlocks);
}

class Elementwise final : public BoundLoss {
 public:
  Elementwise(const Device& device, const ElementwiseLossSpec& spec)
      : BoundLoss(device, BlocksFor(spec)),
        spec_(spec),
        grid_{.blocks_x = static_cast<unsigned>(BlocksFor(spec)),
              .threads_x = Device::ThreadsFor(spec.rows * spec.outputs)} {}

 private:
  void CheckMemory(const Memory& memory) const override { CheckElementwiseMemory(memory); }
  void RunBlocks(LossTotals* sums) override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(ElementwiseLosses), grid_, memory().logits,
                    memory().dlogits, memory().targets, memory().weights, memory().scale, sums,
                    spec_.rows, spec_.outputs, static_cast<int>(spec_.loss), spec_.delta,
                    spec_.label_smoothing);
  }

  const ElementwiseLossSpec spec_;
  const Grid grid_;
};

}  // namespace

std::unique_ptr<LossOp> MakeElementwiseLoss(const Device& device, const ElementwiseLossSpec& spec) {
  CheckLoss(spec);
  return std::make_unique<Elementwise>(device, spec);
}

}  // namespace lockstep::train::cuda
