#include "trainer/backend/cuda/layout/cast.h"

#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda {

void Cast(const Device& device, const CastOperands& operands) {
  device.Launch(LOCKSTEP_CUDA_KERNEL(Convert), device.GridFor(operands.size), operands.x,
                static_cast<int>(operands.from), operands.y, static_cast<int>(operands.to),
                operands.size);
}

}  // namespace lockstep::train::cuda
