#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/loss.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/loss_checks.h"

namespace lockstep::train::cuda {
namespace {

// A block for each row.
class SoftmaxCrossEntropy final : public BoundLoss {
 public:
  SoftmaxCrossEntropy(const Device& device, const SoftmaxCrossEntropySpec& spec)
      : BoundLoss(device, spec.rows), spec_(spec) {}

 private:
  void CheckMemory(const Memory& memory) const override { CheckSoftmaxMemory(memory); }
  void RunBlocks(LossTotals* sums) override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(SoftmaxCrossEntropyRows),
                    {.blocks_x = static_cast<unsigned>(spec_.rows),
                     .threads_x = Device::ThreadsFor(spec_.classes)},
                    memory().logits, memory().dlogits, memory().labels, memory().targets,
                    memory().weights, memory().scale, sums, spec_.classes, spec_.label_smoothing);
  }

  const SoftmaxCrossEntropySpec spec_;
};

}  // namespace

std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const Device& device,
                                                const SoftmaxCrossEntropySpec& spec) {
  CheckLoss(spec);
  return std::make_unique<SoftmaxCrossEntropy>(device, spec);
}

}  // namespace lockstep::train::cuda
