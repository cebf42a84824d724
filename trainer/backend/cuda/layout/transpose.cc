#include "trainer/backend/cuda/layout/transpose.h"

#include <limits>

#include "base/check.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/layout/cast.h"
#include "trainer/backend/cuda/layout/copy.h"

namespace lockstep::train::cuda {

void Transpose(const Device& device, const TransposeOperands& operands) {
  const auto& [x, from, y, to, count, rows, columns] = operands;
  if (rows == 1 || columns == 1) {
    const std::int64_t size = count * rows * columns;
    if (from != to) return Cast(device, {.x = x, .from = from, .y = y, .to = to, .size = size});
    return CopyBytes(device, x, y, static_cast<std::size_t>(size) * SizeOf(to));
  }
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
                x, static_cast<int>(from), y, static_cast<int>(to), rows, columns);
}

}  // namespace lockstep::train::cuda
