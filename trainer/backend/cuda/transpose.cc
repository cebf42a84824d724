#include "trainer/backend/cuda/transpose.h"

#include <limits>

#include "base/check.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda {

void Transpose(const Device& device, const float* x, float* y, std::int64_t count,
               std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTile = kernels::kTile;
  const std::int64_t blocks =
      count * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  LOCKSTEP_CHECK(blocks <= std::numeric_limits<std::int32_t>::max(),
                 "back end cuda: {} matrices of {} x {} are more than a transposition takes", count,
                 rows, columns);
  device.Launch(LOCKSTEP_CUDA_KERNEL(Transpose),
                {.blocks_x = static_cast<unsigned>(blocks),
                 .threads_x = kernels::kTile,
                 .threads_y = kernels::kTileRows},
                x, y, rows, columns);
}

}  // namespace lockstep::train::cuda
