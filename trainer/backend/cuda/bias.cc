#include "trainer/backend/cuda/bias.h"

#include <algorithm>

#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda {

BiasAndRelu::BiasAndRelu(const Device& device, std::int64_t rows, std::int64_t columns, bool bias,
                         bool relu)
    : device_(device), rows_(rows), columns_(columns), has_bias_(bias), has_relu_(relu) {
  // As many chunks of rows as fill the GPU, of several rows for each thread.
  constexpr std::int64_t kBlocksPerMultiprocessor = 8, kRowsPerThread = 4;
  const std::int64_t blocks_x = (columns + kernels::kSumColumns - 1) / kernels::kSumColumns;
  const std::int64_t rows_of_block = kernels::kSumRows * kRowsPerThread;
  const std::int64_t most = std::clamp<std::int64_t>(
      kBlocksPerMultiprocessor * device.multiprocessors() / blocks_x, 1, 65535);
  blocks_x_ = static_cast<unsigned>(blocks_x);
  chunks_ = static_cast<unsigned>(
      std::clamp<std::int64_t>((rows + rows_of_block - 1) / rows_of_block, 1, most));
}

void BiasAndRelu::Forward(float* y, const float* bias) const {
  if (!has_bias_ && !has_relu_) return;
  const std::int64_t size = rows_ * columns_;
  device_.Launch(LOCKSTEP_CUDA_KERNEL(AddBias), device_.GridFor(size), y, bias, size, columns_,
                 has_relu_);
}

void BiasAndRelu::Backward(const float* y, float* dy, float* gradient, void* scratch) const {
  if (!has_bias_) {
    const std::int64_t size = rows_ * columns_;
    if (has_relu_) {
      device_.Launch(LOCKSTEP_CUDA_KERNEL(MaskByRelu), device_.GridFor(size), y, dy, size);
    }
    return;
  }
  auto* sums = static_cast<double*>(scratch);
  device_.Launch(LOCKSTEP_CUDA_KERNEL(SumColumns),
                 {.blocks_x = blocks_x_,
                  .blocks_y = chunks_,
                  .threads_x = kernels::kSumColumns,
                  .threads_y = kernels::kSumRows},
                 dy, has_relu_ ? y : nullptr, rows_, columns_, sums);
  device_.Launch(LOCKSTEP_CUDA_KERNEL(AddSums), device_.GridFor(columns_), sums, gradient, chunks_,
                 columns_);
}

std::size_t BiasAndRelu::ScratchBytes() const {
  return has_bias_ ? chunks_ * static_cast<std::size_t>(columns_) * sizeof(double) : 0;
}

}  // namespace lockstep::train::cuda
