#include "trainer/backend/cuda/kernels/kernel.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

LOCKSTEP_KERNEL(CopyLines, const float* from, float* to, std::int64_t outer, std::int64_t rows,
                std::int64_t line, std::int64_t from_outer, std::int64_t from_row,
                std::int64_t to_outer, std::int64_t to_row) {
  ForEach(outer * rows * line, [=](std::int64_t i) {
    const auto [index, at] = Divide(i, line);
    const auto [o, row] = Divide(index, rows);
    to[o * to_outer + row * to_row + at] = from[o * from_outer + row * from_row + at];
  });
}

LOCKSTEP_KERNEL(AddPair, const float* a, const float* b, float* y, std::int64_t size, bool relu) {
  ForEach(size, [=](std::int64_t i) {
    const float sum = a[i] + b[i];
    y[i] = relu && sum < 0 ? 0.0f : sum;
  });
}

LOCKSTEP_KERNEL(PassGradients, const float* y, const float* dy, float* first, float* second,
                std::int64_t size) {
  ForEach(size, [=](std::int64_t i) {
    const float passed = y == nullptr || y[i] > 0 ? dy[i] : 0.0f;
    if (first != nullptr) first[i] = passed;
    if (second != nullptr) second[i] = passed;
  });
}

}  // namespace lockstep::train::cuda::kernels
