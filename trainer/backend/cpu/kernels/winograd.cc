// Convolutions by Winograd's method: transformed tiles need only 36 matrix products, of (tiles x
// channels of x) and (channels of x x channels of y). With 32 channels, a 5x5 kernel's error equals
// that of a plain sum.
#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/cpu/kernels/winograd_tile.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

// The sums that stay in registers: rows are tiles, columns are channels of y.
constexpr std::int64_t kRows = kLanes == 16 ? 12 : 6;
constexpr std::int64_t kVectors = 2;
static_assert(kWinogradRows % kRows == 0);

template <std::int64_t kTaps>
void TransformKernels(const WinogradWeight& w, std::int64_t first, const float* weight,
                      std::int64_t vectors, float* to) {
  constexpr std::int64_t kField = kTaps * kTaps;
  for (std::int64_t c = 0; c < w.in_channels; ++c) {
    for (std::int64_t v = 0; v < vectors; ++v) {
      const float* from = weight + (first + v) * kLanes * w.out_stride + c * w.in_stride;
      Vector taps[kField];
      for (std::int64_t tap = 0; tap < kField; ++tap) {
        float lanes[kLanes];
        const std::int64_t at = w.flipped ? kField - 1 - tap : tap;
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
          lanes[lane] = from[lane * w.out_stride + at];
        taps[tap] = Load<Vector>(lanes);
      }
      Vector half[kSide * kTaps], whole[kArea];
      for (std::int64_t s = 0; s < kTaps; ++s) {
        TransformKernel<kTaps>(taps + s, kTaps, half + s, kTaps);
      }
      for (std::int64_t i = 0; i < kSide; ++i) {
        TransformKernel<kTaps>(half + i * kTaps, 1, whole + i * kSide, 1);
      }
      for (std::int64_t i = 0; i < kArea; ++i) {
        Store(to + ((i * w.in_channels + c) * vectors + v) * kLanes, whole[i]);
      }
    }
  }
}

// Tiles that are transformed, multiplied and stored together.
struct Tiles {
  std::int64_t first, count, rows;  // rows: count rounded up to kRows
};

// Multiplies kRows tiles by kCount vectors of channels of y.
template <std::int64_t kCount>
[[gnu::always_inline]] inline void MultiplyRows(const float* tiles, const float* weight,
                                                std::int64_t channels, float* to) {
  Vector sums[kRows][kCount] = {};
  for (std::int64_t c = 0; c < channels; ++c, weight += kCount * kLanes) {
    Vector w[kCount];
    for (std::int64_t v = 0; v < kCount; ++v) w[v] = Load<Vector>(weight + v * kLanes);
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t v = 0; v < kCount; ++v) sums[r][v] += tiles[r * channels + c] * w[v];
    }
  }
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t v = 0; v < kCount; ++v) Store(to + (r * kCount + v) * kLanes, sums[r][v]);
  }
}

// Stores the part inside the image of one tile, for a vector of channels of y.
template <std::int64_t kTile>
void StoreTile(const WinogradShape& s, const Place& at, const Vector* tile, Vector bias, float* y) {
  for (std::int64_t h = 0; h < kTile && at.row + h < s.y.height; ++h) {
    for (std::int64_t w = 0; w < kTile && at.column + w < s.y.width; ++w) {
      Vector value = tile[h * kTile + w] + bias;
      if (s.relu) value = value < 0.0f ? Vector{} : value;  // NaN is kept
      Store(y + ((at.row + h) * s.y.width + at.column + w) * s.y.inner, value);
    }
  }
}

// Stores kCount vectors of channels from `vector` on.
template <std::int64_t kCount, std::int64_t kTile>
void StoreTiles(const WinogradShape& s, const Tiles& tiles, std::int64_t vector,
                const float* products, float* y) {
  const std::int64_t image = s.y.channels * s.y.height * s.y.width;
  for (std::int64_t tile = 0; tile < tiles.count; ++tile) {
    const Place at = PlaceOf(s, tiles.first + tile);
    for (std::int64_t v = 0; v < kCount; ++v) {
      Vector m[kArea], half[kSide * kTile], out[kTile * kTile];
      for (std::int64_t i = 0; i < kArea; ++i) {
        m[i] = Load<Vector>(products + ((i * tiles.rows + tile) * kCount + v) * kLanes);
      }
      for (std::int64_t w = 0; w < kSide; ++w) {
        TransformOutput<kTile>(m + w, kSide, half + w, kSide);
      }
      for (std::int64_t h = 0; h < kTile; ++h) {
        TransformOutput<kTile>(half + h * kSide, 1, out + h * kTile, 1);
      }
      const Vector bias =
          s.bias == nullptr ? Vector{} : Load<Vector>(s.bias + (vector + v) * kLanes);
      StoreTile<kTile>(s, at, out, bias, y + at.image * image + VectorAt(s.y, vector + v));
    }
  }
}

template <std::int64_t kCount>
void MultiplyTiles(const WinogradShape& s, const Tiles& tiles, const float* transformed,
                   const float* weight, float* products) {
  const std::int64_t matrix = MatrixFloats(tiles.rows, s.x.channels);
  for (std::int64_t i = 0; i < kArea; ++i) {
    for (std::int64_t r = 0; r < tiles.rows; r += kRows) {
      MultiplyRows<kCount>(transformed + i * matrix + r * s.x.channels,
                           weight + i * s.x.channels * kCount * kLanes, s.x.channels,
                           products + (i * tiles.rows + r) * kCount * kLanes);
    }
  }
}

template <std::int64_t kCount>
void StoreTiles(const WinogradShape& s, const Tiles& tiles, std::int64_t vector,
                const float* products, float* y) {
  s.taps == 5 ? StoreTiles<kCount, 2>(s, tiles, vector, products, y)
              : StoreTiles<kCount, 4>(s, tiles, vector, products, y);
}

void WinogradTransformWeight(const WinogradWeight& w, std::int64_t first_vector,
                             std::int64_t last_vector, const float* weight, float* to) {
  for (std::int64_t vector = first_vector; vector < last_vector; vector += kVectors) {
    const std::int64_t left = last_vector - vector, count = left < kVectors ? left : kVectors;
    float* block = to + (vector - first_vector) * kArea * w.in_channels * kLanes;
    w.taps == 5 ? TransformKernels<5>(w, vector, weight, count, block)
                : TransformKernels<3>(w, vector, weight, count, block);
  }
}

void Winograd(const WinogradShape& s, const WinogradTiles& all, const float* x,
              const WinogradBlock& block, float* y, float* scratch) {
  float* products = scratch + kArea * MatrixFloats(s.rows, s.x.channels);
  for (std::int64_t first = all.first; first < all.last; first += s.rows) {
    const std::int64_t count = all.last - first < s.rows ? all.last - first : s.rows;
    const Tiles tiles{first, count, (count + kRows - 1) / kRows * kRows};
    TransformTiles(s, tiles.first, tiles.count, tiles.rows, x, scratch);
    for (std::int64_t v = block.first_vector; v < block.last_vector; v += kVectors) {
      const float* weight = block.weight + (v - block.first_vector) * kArea * s.x.channels * kLanes;
      if (block.last_vector - v >= kVectors) {
        MultiplyTiles<kVectors>(s, tiles, scratch, weight, products);
        StoreTiles<kVectors>(s, tiles, v, products, y);
      } else {
        MultiplyTiles<1>(s, tiles, scratch, weight, products);
        StoreTiles<1>(s, tiles, v, products, y);
      }
    }
  }
}

}  // namespace

void Fill(WinogradKernels& kernels) {
  kernels = {
      .winograd = Winograd,
      .winograd_weight = WinogradTransformWeight,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
