// Matrices and images with their axes in another order.
#pragma once

#include <cstdint>

#include "trainer/backend/cuda/device/device.h"
#include "trainer/core/dtype.h"

namespace lockstep::train::cuda {

// y[m,c,r] = x[m,r,c] for each of `count` matrices, as another floating-point type if `from` is not
// `to`. `rows` or `columns` is 1 for a copy.
struct TransposeOperands {
  const void* x = nullptr;
  DType from = DType::kFloat32;
  void* y = nullptr;
  DType to = DType::kFloat32;
  std::int64_t count = 0, rows = 0, columns = 0;
};
void Transpose(const Device& device, const TransposeOperands& operands);

}  // namespace lockstep::train::cuda
