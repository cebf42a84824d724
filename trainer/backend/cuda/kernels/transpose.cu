#include "trainer/backend/cuda/kernels/kernel.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

// A tile goes through shared memory, so that both reads and writes are of neighboring addresses.
LOCKSTEP_BLOCK_KERNEL(Transpose, const float* x, float* y, std::int64_t rows,
                      std::int64_t columns) {
  __shared__ float tile[kTile][kTile + 1];  // + 1: a column's elements lie in different banks
  const auto row_tiles = static_cast<unsigned>((rows + kTile - 1) / kTile);
  const auto column_tiles = static_cast<unsigned>((columns + kTile - 1) / kTile);
  const unsigned matrix = blockIdx.x / (row_tiles * column_tiles);
  const unsigned tile_of_matrix = blockIdx.x % (row_tiles * column_tiles);
  const std::int64_t first_row = std::int64_t{tile_of_matrix / column_tiles} * kTile;
  const std::int64_t first_column = std::int64_t{tile_of_matrix % column_tiles} * kTile;
  const std::int64_t start = std::int64_t{matrix} * rows * columns;

  for (unsigned r = threadIdx.y; r < kTile; r += kTileRows) {
    const std::int64_t row = first_row + r, column = first_column + threadIdx.x;
    if (row < rows && column < columns) {
      tile[r][threadIdx.x] = x[start + row * columns + column];
    }
  }
  __syncthreads();
  for (unsigned c = threadIdx.y; c < kTile; c += kTileRows) {
    const std::int64_t row = first_row + threadIdx.x, column = first_column + c;
    if (row < rows && column < columns) {
      y[start + column * rows + row] = tile[threadIdx.x][c];
    }
  }
}

}  // namespace lockstep::train::cuda::kernels
