#include "trainer/backend/cuda/cast.h"

#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda {

void Cast(const Device& device, const CastOperands& operands) {
  const Grid grid = device.GridFor(operands.size);
  const bool widens = operands.to == DType::kFloat32;
  const DType narrow = widens ? operands.from : operands.to;
  if (widens) {
    const auto kernel = narrow == DType::kBFloat16 ? LOCKSTEP_CUDA_KERNEL(FloatsFromBfloats)
                                                   : LOCKSTEP_CUDA_KERNEL(FloatsFromHalves);
    device.Launch(kernel, grid, static_cast<const std::uint16_t*>(operands.x),
                  static_cast<float*>(operands.y), operands.size);
    return;
  }
  const auto kernel = narrow == DType::kBFloat16 ? LOCKSTEP_CUDA_KERNEL(BfloatsFromFloats)
                                                 : LOCKSTEP_CUDA_KERNEL(HalvesFromFloats);
  device.Launch(kernel, grid, static_cast<const float*>(operands.x),
                static_cast<std::uint16_t*>(operands.y), operands.size);
}

}  // namespace lockstep::train::cuda
