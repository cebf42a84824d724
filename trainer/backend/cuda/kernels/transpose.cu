#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

namespace {

// Where a block's tile lies: in a matrix that begins at `start`.
struct TilePlace {
  std::int64_t start = 0, first_row = 0, first_column = 0;

  __device__ TilePlace(std::int64_t rows, std::int64_t columns) {
    const auto row_tiles = static_cast<unsigned>((rows + kTile - 1) / kTile);
    const auto column_tiles = static_cast<unsigned>((columns + kTile - 1) / kTile);
    const unsigned matrix = blockIdx.x / (row_tiles * column_tiles);
    const unsigned tile = blockIdx.x % (row_tiles * column_tiles);
    first_row = std::int64_t{tile / column_tiles} * kTile;
    first_column = std::int64_t{tile % column_tiles} * kTile;
    start = std::int64_t{matrix} * rows * columns;
  }
};

}  // namespace

// A tile goes through shared memory, so that both reads and writes are of neighboring addresses.
LOCKSTEP_BLOCK_KERNEL(Transpose, const void* x, int from, void* y, int to, std::int64_t rows,
                      std::int64_t columns) {
  [[maybe_unused]] __shared__ float
      tile[kTile][kTile + 1];  // + 1: a column's elements lie in different banks
  const TilePlace place(rows, columns);
  WithType(from, [&]<typename X>(X) {
    for (unsigned r = threadIdx.y; r < kTile; r += kTileRows) {
      const std::int64_t row = place.first_row + r, column = place.first_column + threadIdx.x;
      if (row >= rows || column >= columns) continue;
      tile[r][threadIdx.x] =
          ToFloat(static_cast<const X*>(x)[place.start + row * columns + column]);
    }
  });
  __syncthreads();
  WithType(to, [&]<typename Y>(Y) {
    for (unsigned c = threadIdx.y; c < kTile; c += kTileRows) {
      const std::int64_t row = place.first_row + threadIdx.x, column = place.first_column + c;
      if (row >= rows || column >= columns) continue;
      static_cast<Y*>(y)[place.start + column * rows + row] = FromFloat<Y>(tile[threadIdx.x][c]);
    }
  });
}

}  // namespace lockstep::train::cuda::kernels
