#include "trainer/backend/cuda/loss.h"

#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda {

BoundLoss::BoundLoss(const Device& device, std::int64_t blocks)
    : device_(device),
      blocks_(blocks),
      buffer_(device),
      sums_(buffer_.Reserve<LossTotals>(blocks)) {}

void BoundLoss::Bind(const Memory& memory) {
  CheckMemory(memory);
  memory_ = memory;
}

void BoundLoss::Run() {
  RunBlocks(sums_);
  device_.Launch(LOCKSTEP_CUDA_KERNEL(AddLosses), {.threads_x = Device::ThreadsFor(blocks_)}, sums_,
                 blocks_, memory_.totals);
}

}  // namespace lockstep::train::cuda
