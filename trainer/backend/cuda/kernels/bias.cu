#include "trainer/backend/cuda/kernels/kernel.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

// Each thread steps through columns without a division per element.
LOCKSTEP_KERNEL(AddBias, float* y, const float* bias, std::int64_t size, std::int64_t columns,
                bool relu) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t step = stride % columns;
  std::int64_t column = first % columns;
  for (std::int64_t i = first; i < size; i += stride) {
    const float value = bias == nullptr ? y[i] : y[i] + bias[column];
    y[i] = relu && value < 0 ? 0.0f : value;  // NaN is kept
    column += step;
    if (column >= columns) column -= columns;
  }
}

LOCKSTEP_KERNEL(MaskByRelu, const float* y, float* dy, std::int64_t size) {
  ForEach(size, [=](std::int64_t i) { dy[i] = y[i] > 0 ? dy[i] : 0.0f; });
}

LOCKSTEP_BLOCK_KERNEL(SumColumns, float* dy, const float* y, std::int64_t rows,
                      std::int64_t columns, double* sums) {
  __shared__ double parts[kSumRows][kSumColumns];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kSumColumns + threadIdx.x;
  const std::int64_t chunk = (rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t begin = chunk * blockIdx.y;
  const std::int64_t end = begin + chunk < rows ? begin + chunk : rows;
  double sum = 0;
  if (column < columns) {
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kSumRows) {
      const std::int64_t i = row * columns + column;
      float value = dy[i];
      if (y != nullptr) {
        value = y[i] > 0 ? value : 0.0f;
        dy[i] = value;
      }
      sum += static_cast<double>(value);
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  double total = 0;
  for (unsigned part = 0; part < kSumRows; ++part) total += parts[part][threadIdx.x];
  sums[blockIdx.y * columns + column] = total;
}

LOCKSTEP_KERNEL(AddSums, const double* sums, float* gradient, std::int64_t chunks,
                std::int64_t columns) {
  ForEach(columns, [=](std::int64_t column) {
    double total = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) total += sums[chunk * columns + column];
    gradient[column] = static_cast<float>(total);
  });
}

}  // namespace lockstep::train::cuda::kernels
