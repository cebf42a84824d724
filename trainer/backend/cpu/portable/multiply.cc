#include "trainer/backend/cpu/portable/multiply.h"

#include <algorithm>

#include "trainer/backend/cpu/parallel.h"

namespace lockstep::train::cpu {
namespace {

// The multiplications that take about as long as loading a float from memory.
constexpr std::int64_t kProductsPerFloat = 16;
// Pieces are multiples of a register on every instruction set.
constexpr std::int64_t kGrain = 16;

// The product restricted to rows (or columns) [begin, end) of the result.
Product PieceOf(const Product& whole, bool rows, std::int64_t begin, std::int64_t end) {
  Product piece = whole;
  if (rows) {
    piece.m = end - begin;
    piece.a += begin * whole.a_row;
    piece.c += begin * whole.c_row;
  } else {
    piece.n = end - begin;
    piece.b += begin * whole.b_column;
    piece.c += begin;
  }
  return piece;
}

}  // namespace

std::size_t MultiplyScratchBytes(const Device& device) {
  return static_cast<std::size_t>(device.threads * kProductScratchFloats) * sizeof(float);
}

void Multiply(const Device& device, const Product& product, void* scratch) {
  const bool rows = product.m >= product.n;
  const std::int64_t count = rows ? product.m : product.n;
  const std::int64_t grains = (count + kGrain - 1) / kGrain;
  const std::int64_t parts =
      ThreadsFor(device.threads, product.m * product.n * product.k / kProductsPerFloat);
  ParallelFor(static_cast<int>(parts), parts, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      const std::int64_t begin = grains * part / parts * kGrain;
      const std::int64_t end = std::min(grains * (part + 1) / parts * kGrain, count);
      if (begin >= end) continue;
      device.kernels.multiply(PieceOf(product, rows, begin, end),
                              static_cast<float*>(scratch) + part * kProductScratchFloats);
    }
  });
}

}  // namespace lockstep::train::cpu
