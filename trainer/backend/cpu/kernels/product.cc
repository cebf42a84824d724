// A blocked matrix product, after Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", 2008: blocks of a and b are copied into panels, so that the innermost loop reads
// memory sequentially and keeps its sums in registers.
#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/cpu/kernels/lanes.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

using Vector = Lanes<LOCKSTEP_LANES>::Float;

// A tile of c: 12 sums, two vectors of b and one of a fit the 16 registers of most processors.
constexpr std::int64_t kRows = 6, kVectors = 2, kColumns = kVectors * LOCKSTEP_LANES;
// The sizes of blocks: a's panels stay in the second-level cache, one of b's in the first.
constexpr std::int64_t kDepth = 256, kBlockRows = 96, kBlockColumns = 256;
static_assert(kBlockRows % kRows == 0 && kBlockColumns % kColumns == 0);
static_assert(kDepth * (kBlockRows + kBlockColumns) == kProductScratchFloats);

inline std::int64_t Least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// Copies a block to panels of kWidth elements: panel x depth x kWidth, the last one padded with
// zeros. In `from`, elements are `across` floats apart, steps along the depth `along`.
template <std::int64_t kWidth>
void Pack(const float* from, std::int64_t across, std::int64_t along, std::int64_t count,
          std::int64_t depth, float* to) {
  for (std::int64_t first = 0; first < count; first += kWidth) {
    const std::int64_t used = Least(kWidth, count - first);
    const float* panel = from + first * across;
    for (std::int64_t p = 0; p < depth; ++p, to += kWidth) {
      for (std::int64_t i = 0; i < used; ++i) to[i] = panel[i * across + p * along];
      for (std::int64_t i = used; i < kWidth; ++i) to[i] = 0;
    }
  }
}

// Stores the part of a tile that lies inside c.
void StoreEdge(const Vector (&sums)[kRows][kVectors], const Product& tile, bool add) {
  for (std::int64_t r = 0; r < tile.m; ++r) {
    float row[kColumns];
    for (std::int64_t v = 0; v < kVectors; ++v) Store(row + v * LOCKSTEP_LANES, sums[r][v]);
    float* c = tile.c + r * tile.c_row;
    for (std::int64_t i = 0; i < tile.n; ++i) c[i] = add ? c[i] + row[i] : row[i];
  }
}

// Computes a tile from a panel of a and one of b. Requires: tile.m <= kRows, tile.n <= kColumns.
void MultiplyPanels(const float* a, const float* b, const Product& tile, bool add) {
  Vector sums[kRows][kVectors] = {};
  for (std::int64_t p = 0; p < tile.k; ++p, a += kRows, b += kColumns) {
    const auto left = Load<Vector>(b), right = Load<Vector>(b + LOCKSTEP_LANES);
    for (std::int64_t r = 0; r < kRows; ++r) {
      sums[r][0] += a[r] * left;
      sums[r][1] += a[r] * right;
    }
  }
  if (tile.m < kRows || tile.n < kColumns) return StoreEdge(sums, tile, add);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t v = 0; v < kVectors; ++v) {
      float* c = tile.c + r * tile.c_row + v * LOCKSTEP_LANES;
      Store(c, add ? Load<Vector>(c) + sums[r][v] : sums[r][v]);
    }
  }
}

// Computes a block of c from panels; its sizes are at most those above.
void MultiplyBlocks(const float* a, const float* b, const Product& block, bool add) {
  for (std::int64_t column = 0; column < block.n; column += kColumns) {
    for (std::int64_t row = 0; row < block.m; row += kRows) {
      Product tile = block;
      tile.m = Least(kRows, block.m - row);
      tile.n = Least(kColumns, block.n - column);
      tile.c = block.c + row * block.c_row + column;
      MultiplyPanels(a + row * block.k, b + column * block.k, tile, add);
    }
  }
}

void Multiply(const Product& whole, float* scratch) {
  float* panels_of_a = scratch;
  float* panels_of_b = scratch + kDepth * kBlockRows;
  for (std::int64_t column = 0; column < whole.n; column += kBlockColumns) {
    for (std::int64_t depth = 0; depth < whole.k; depth += kDepth) {
      Product block = whole;
      block.n = Least(kBlockColumns, whole.n - column);
      block.k = Least(kDepth, whole.k - depth);
      Pack<kColumns>(whole.b + depth * whole.b_row + column * whole.b_column, whole.b_column,
                     whole.b_row, block.n, block.k, panels_of_b);
      for (std::int64_t row = 0; row < whole.m; row += kBlockRows) {
        block.m = Least(kBlockRows, whole.m - row);
        block.c = whole.c + row * whole.c_row + column;
        Pack<kRows>(whole.a + row * whole.a_row + depth * whole.a_column, whole.a_row,
                    whole.a_column, block.m, block.k, panels_of_a);
        MultiplyBlocks(panels_of_a, panels_of_b, block, whole.add || depth > 0);
      }
    }
  }
}

}  // namespace

void Fill(ProductKernels& kernels) {
  kernels = {
      .multiply = Multiply,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
