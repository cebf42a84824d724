// Convolutions of the simulated device, of tensors in any order in memory.
#pragma once

#include <array>
#include <cstdint>

#include "tests/support/cuda_sim/numbers.h"

namespace cuda_sim {

// Elements and the steps from one to the next along N,C,H,W, or K,C,R,S.
struct Strided {
  std::array<std::int64_t, 4> dimensions = {}, strides = {};
  NumberType type = NumberType::kFloat32;
};
enum class Pass { kForward, kBackwardData, kBackwardWeights };
struct Convolving {
  Pass pass = Pass::kForward;
  Strided x, w, y;
  std::array<std::int64_t, 2> paddings = {}, strides = {};
};

// Writes the one of x, w and y that the pass computes, with sums in double. `rounds`: the factors
// to TF32.
void Convolve(const Convolving& what, bool rounds, void* x, void* w, void* y);

}  // namespace cuda_sim
