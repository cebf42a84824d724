// The sums of products of the simulated libraries. They are most of what a simulated step costs,
// and touch only copies of device memory, so they are optimised in every build and no sanitizer
// watches them.
#pragma once

#include <cstdint>

#include "tests/support/cuda_sim/convolve.h"

namespace cuda_sim {

// Adds the products of a convolution's pass to `sums`, which has the order of what the pass
// computes. `x`, `w` and `y` have the order of their tensors; the one that the pass computes is not
// read.
void AddProducts(const Convolving& what, const float* x, const float* w, const float* y,
                 double* sums);

// The inner product of `a` and `b`, added from front to back.
double InnerProduct(const double* a, const double* b, std::int64_t count);

}  // namespace cuda_sim
