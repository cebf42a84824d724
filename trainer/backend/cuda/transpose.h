// Matrices and images with their axes in another order.
#pragma once

#include <cstdint>

#include "trainer/backend/cuda/device.h"

namespace lockstep::train::cuda {

// y[m,c,r] = x[m,r,c] for each of `count` matrices. `rows` or `columns` is 1 for a copy.
void Transpose(const Device& device, const float* x, float* y, std::int64_t count,
               std::int64_t rows, std::int64_t columns);

}  // namespace lockstep::train::cuda
