// The weight's gradient of a convolution by Winograd's method: a tile of dy acts as a kernel on a
// tile of x, so transformed tiles need only 36 matrix products, of (channels of x x tiles) and
// (tiles x channels of y). The error is about ten times that of a plain sum: 4e-6 of the largest
// element over 6,000 tiles.
#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/cpu/kernels/winograd_tile.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

// The sums that stay in registers: rows are channels of x, columns are channels of y.
constexpr std::int64_t kRows = kLanes == 16 ? 8 : 4;
constexpr std::int64_t kVectors = 3;

// A range of transformed tiles: kArea matrices of tiles x channels for each of x and dy.
struct Transformed {
  std::int64_t tiles;
  float *x, *dy;
  float* bias;  // the sum of dy
};

template <std::int64_t kTile>
void TransformDy(const WinogradShape& s, std::int64_t first, const float* dy,
                 const Transformed& to) {
  for (std::int64_t k = 0; k < s.y.channels; ++k) to.bias[k] = 0;
  const std::int64_t image = s.y.channels * s.y.height * s.y.width;
  const std::int64_t matrix = MatrixFloats(to.tiles, s.y.channels);
  for (std::int64_t tile = 0; tile < to.tiles; ++tile) {
    const Place at = PlaceOf(s, first + tile);
    for (std::int64_t v = 0; v < s.y.channels / kLanes; ++v) {
      const float* from = dy + at.image * image + VectorAt(s.y, v);
      Vector d[kTile * kTile] = {}, half[kSide * kTile], whole[kArea];
      Vector sum{};
      for (std::int64_t h = 0; h < kTile && at.row + h < s.y.height; ++h) {
        for (std::int64_t w = 0; w < kTile && at.column + w < s.y.width; ++w) {
          const std::int64_t pixel = (at.row + h) * s.y.width + at.column + w;
          d[h * kTile + w] = Load<Vector>(from + pixel * s.y.inner);
          sum += d[h * kTile + w];
        }
      }
      Store(to.bias + v * kLanes, Load<Vector>(to.bias + v * kLanes) + sum);
      for (std::int64_t w = 0; w < kTile; ++w) {
        TransformKernel<kTile>(d + w, kTile, half + w, kTile);
      }
      for (std::int64_t i = 0; i < kSide; ++i) {
        TransformKernel<kTile>(half + i * kTile, 1, whole + i * kSide, 1);
      }
      for (std::int64_t i = 0; i < kArea; ++i) {
        Store(to.dy + i * matrix + tile * s.y.channels + v * kLanes, whole[i]);
      }
    }
  }
}

// Adds the products of kRows channels of x and kCount vectors of channels of y over all tiles.
template <std::int64_t kCount>
void AddProducts(const WinogradShape& s, std::int64_t tiles, const float* x, const float* dy,
                 float* sums) {
  Vector products[kRows][kCount] = {};
  for (std::int64_t tile = 0; tile < tiles; ++tile, x += s.x.channels, dy += s.y.channels) {
    Vector g[kCount];
    for (std::int64_t v = 0; v < kCount; ++v) g[v] = Load<Vector>(dy + v * kLanes);
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t v = 0; v < kCount; ++v) products[r][v] += x[r] * g[v];
    }
  }
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t v = 0; v < kCount; ++v) {
      float* at = sums + r * s.y.channels + v * kLanes;
      Store(at, Load<Vector>(at) + products[r][v]);
    }
  }
}

void AddMatrix(const WinogradShape& s, std::int64_t tiles, const float* x, const float* dy,
               float* sums) {
  for (std::int64_t c = 0; c < s.x.channels; c += kRows) {
    std::int64_t k = 0;
    for (; k + kVectors * kLanes <= s.y.channels; k += kVectors * kLanes) {
      AddProducts<kVectors>(s, tiles, x + c, dy + k, sums + c * s.y.channels + k);
    }
    const std::int64_t left = (s.y.channels - k) / kLanes;
    if (left == 2) AddProducts<2>(s, tiles, x + c, dy + k, sums + c * s.y.channels + k);
    if (left == 1) AddProducts<1>(s, tiles, x + c, dy + k, sums + c * s.y.channels + k);
  }
}

template <std::int64_t kTaps>
void StoreWeights(const WinogradShape& s, const WinogradParts& parts, std::int64_t c,
                  float* weight) {
  constexpr std::int64_t kField = kTaps * kTaps;
  for (std::int64_t k = 0; k < s.y.channels; k += kLanes) {
    Vector m[kArea], half[kSide * kTaps], taps[kField];
    for (std::int64_t i = 0; i < kArea; ++i) {
      const float* at = parts.sums + (i * s.x.channels + c) * s.y.channels + k;
      m[i] = Load<Vector>(at);
      for (std::int64_t part = 1; part < parts.count; ++part) {
        m[i] += Load<Vector>(at + part * parts.stride);
      }
    }
    for (std::int64_t w = 0; w < kSide; ++w) TransformOutput<kTaps>(m + w, kSide, half + w, kSide);
    for (std::int64_t h = 0; h < kTaps; ++h) {
      TransformOutput<kTaps>(half + h * kSide, 1, taps + h * kTaps, 1);
    }
    for (std::int64_t tap = 0; tap < kField; ++tap) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        weight[((k + lane) * s.x.channels + c) * kField + tap] = taps[tap][lane];
      }
    }
  }
}

void WinogradGradient(const WinogradShape& s, const WinogradTiles& tiles, const float* x,
                      const float* dy, float* sums, float* scratch) {
  float* bias = sums + kArea * s.x.channels * s.y.channels;
  for (std::int64_t first = tiles.first; first < tiles.last; first += s.rows) {
    const std::int64_t left = tiles.last - first;
    float* of_dy = scratch + kArea * MatrixFloats(s.rows, s.x.channels);
    const Transformed to{left < s.rows ? left : s.rows, scratch, of_dy,
                         of_dy + kArea * MatrixFloats(s.rows, s.y.channels)};
    TransformTiles(s, first, to.tiles, to.tiles, x, to.x);
    s.taps == 5 ? TransformDy<2>(s, first, dy, to) : TransformDy<4>(s, first, dy, to);
    for (std::int64_t k = 0; k < s.y.channels; ++k) bias[k] += to.bias[k];
    for (std::int64_t i = 0; i < kArea; ++i) {
      AddMatrix(s, to.tiles, to.x + i * MatrixFloats(to.tiles, s.x.channels),
                to.dy + i * MatrixFloats(to.tiles, s.y.channels),
                sums + i * s.x.channels * s.y.channels);
    }
  }
}

void WinogradGradientWeight(const WinogradShape& s, const WinogradParts& parts,
                            std::int64_t first_channel, std::int64_t last_channel, float* weight) {
  for (std::int64_t c = first_channel; c < last_channel; ++c) {
    s.taps == 5 ? StoreWeights<5>(s, parts, c, weight) : StoreWeights<3>(s, parts, c, weight);
  }
}

}  // namespace

void Fill(WinogradGradientKernels& kernels) {
  kernels = {
      .winograd_gradient = WinogradGradient,
      .winograd_gradient_weight = WinogradGradientWeight,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
