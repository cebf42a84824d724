#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {
namespace {

// Each thread steps through groups of neighbors in a row without a division per group.
template <unsigned kCount, typename T>
__device__ void AddBiasTo(T* y, const float* bias, std::int64_t size, std::int64_t columns,
                          bool relu) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t step = stride * kCount % columns;
  std::int64_t column = first * kCount % columns;
  for (std::int64_t i = first * kCount; i < size; i += stride * kCount) {
    auto values = Load<kCount>(y, i);
    for (unsigned k = 0; k < kCount; ++k) {
      const float value = ToFloat(values.elements[k]);
      values.elements[k] =
          FromFloat<T>(Rectified(bias == nullptr ? value : value + bias[column + k], relu));
    }
    Store(y, i, values);
    column += step;
    if (column >= columns) column -= columns;
  }
}

}  // namespace

LOCKSTEP_KERNEL(AddBias, void* y, int type, const float* bias, std::int64_t size,
                std::int64_t columns, bool relu) {
  WithType(type, [=]<typename T>(T) {
    constexpr unsigned kCount = kMostNeighbors<T>;
    if (columns % kCount == 0) {
      AddBiasTo<kCount>(static_cast<T*>(y), bias, size, columns, relu);
    } else {
      AddBiasTo<1>(static_cast<T*>(y), bias, size, columns, relu);
    }
  });
}

}  // namespace lockstep::train::cuda::kernels
