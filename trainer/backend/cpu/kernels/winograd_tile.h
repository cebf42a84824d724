// Tiles and their transforms, shared by Winograd's kernels. This is Winograd's minimal filtering
// with six points per axis: Lavin and Gray, "Fast algorithms for convolutional neural networks",
// 2016. The points are 0, 1, -1, 1/2, -2 and infinity, whose rounding error is smaller than that of
// 0, 1, -1, 2, -2 and infinity (Barabasz and others, "Error analysis and improving the accuracy of
// Winograd convolution for deep neural networks", 2020).
#pragma once

#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/cpu/kernels/lanes.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {

using Vector = Lanes<LOCKSTEP_LANES>::Float;
constexpr std::int64_t kLanes = LOCKSTEP_LANES;
constexpr std::int64_t kSide = kWinogradSide, kArea = kSide * kSide;

// The distance in floats between the kArea matrices. They must not all start in the same few cache
// sets, because a tile writes to each of them.
inline std::int64_t MatrixFloats(std::int64_t rows, std::int64_t channels) {
  return rows * channels + kWinogradGap;
}

// The offset of a vector of channels in an image.
inline std::int64_t VectorAt(const WinogradImage& image, std::int64_t vector) {
  const std::int64_t channel = vector * kLanes;
  return channel / image.inner * image.height * image.width * image.inner + channel % image.inner;
}

// Transforms one axis of a tile of x: d[0 … 5 * step] to out[0 … 5 * out_step].
[[gnu::always_inline]] inline void TransformInput(const Vector* d, std::int64_t step, Vector* out,
                                                  std::int64_t out_step) {
  const Vector d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step],
               d5 = d[5 * step];
  const Vector odd = d3 + 1.5f * d2 - d1, even = d4 + 1.5f * d3 - d2;
  const Vector low = d3 - d1, high = d4 - d2;
  out[0] = even - (d2 + 1.5f * d1 - d0);
  out[out_step] = even + odd;
  out[2 * out_step] = even - odd;
  out[3 * out_step] = high + 2.0f * low;
  out[4 * out_step] = high - 0.5f * low;
  out[5 * out_step] = (d5 + 1.5f * d4 - d3) - odd;
}

// Transforms one axis of products: kSide values to kCount. Value i is the sum over the points p of
// p^i m(p); infinity contributes only to the last one.
template <std::int64_t kCount>
[[gnu::always_inline]] inline void TransformOutput(const Vector* m, std::int64_t step, Vector* out,
                                                   std::int64_t out_step) {
  const Vector m1 = m[step], m2 = m[2 * step], m3 = m[3 * step], m4 = m[4 * step];
  const Vector sum = m1 + m2, difference = m1 - m2;
  out[0] = m[0] + sum + (m3 + m4);
  float half = 1, two = 1;
  for (std::int64_t i = 1; i < kCount; ++i) {
    half *= 0.5f;
    two *= -2;
    out[i * out_step] = (i % 2 == 0 ? sum : difference) + (half * m3 + two * m4);
  }
  out[(kCount - 1) * out_step] += m[5 * step];
}

// Transforms one axis of a kernel, by p^k / product of (p - q) over the other points q.
template <std::int64_t kTaps>
[[gnu::always_inline]] inline void TransformKernel(const Vector* g, std::int64_t step, Vector* out,
                                                   std::int64_t out_step) {
  constexpr float kPoints[] = {0.0f, 1.0f, -1.0f, 0.5f, -2.0f};
  constexpr float kFactors[] = {1.0f, 1.0f / 3, -1.0f / 3, -16.0f / 15, 1.0f / 15};
  for (std::int64_t i = 0; i < kSide - 1; ++i) {
    Vector sum = g[(kTaps - 1) * step];
    for (std::int64_t k = kTaps - 2; k >= 0; --k) sum = kPoints[i] * sum + g[k * step];
    out[i * out_step] = kFactors[i] * sum;
  }
  out[(kSide - 1) * out_step] = g[(kTaps - 1) * step];
}

// A tile's position: its image and its first pixel in y. A tile of x is 6x6; one of y is 2x2 (5x5
// kernels) or 4x4 (3x3 kernels).
struct Place {
  std::int64_t image, row, column;
};
inline Place PlaceOf(const WinogradShape& s, std::int64_t tile) {
  const std::int64_t step = kSide + 1 - s.taps;
  const std::int64_t across = (s.y.width + step - 1) / step;
  const std::int64_t down = (s.y.height + step - 1) / step;
  return {tile / (across * down), tile / across % down * step, tile % across * step};
}

// Loads a tile's pixels for one vector of channels, with zeros outside the image.
inline void LoadTile(const WinogradShape& s, const Place& at, const float* x, Vector* tile) {
  const std::int64_t top = at.row - s.pad_h, left = at.column - s.pad_w;
  const bool whole =
      top >= 0 && left >= 0 && top + kSide <= s.x.height && left + kSide <= s.x.width;
  for (std::int64_t h = 0; h < kSide; ++h) {
    for (std::int64_t w = 0; w < kSide; ++w) {
      const bool inside =
          whole || (top + h >= 0 && top + h < s.x.height && left + w >= 0 && left + w < s.x.width);
      const std::int64_t pixel = (top + h) * s.x.width + left + w;
      tile[h * kSide + w] = inside ? Load<Vector>(x + pixel * s.x.inner) : Vector{};
    }
  }
}

// Loads and transforms a tile for one vector of channels of x.
inline void TransformTile(const WinogradShape& s, const Place& at, const float* x, Vector* whole) {
  Vector d[kArea], half[kArea];
  LoadTile(s, at, x, d);
  for (std::int64_t w = 0; w < kSide; ++w) TransformInput(d + w, kSide, half + w, kSide);
  for (std::int64_t h = 0; h < kSide; ++h)
    TransformInput(half + h * kSide, 1, whole + h * kSide, 1);
}

// Transforms `count` tiles from `first` on to kArea matrices of `rows` rows: tiles x channels of x.
// Zeroes the rows beyond `count`, because they are multiplied too: memory from another op may hold
// denormal numbers, which are slow, or be uninitialized.
inline void TransformTiles(const WinogradShape& s, std::int64_t first, std::int64_t count,
                           std::int64_t rows, const float* x, float* to) {
  const std::int64_t image = s.x.channels * s.x.height * s.x.width;
  const std::int64_t matrix = MatrixFloats(rows, s.x.channels);
  for (std::int64_t tile = 0; tile < count; ++tile) {
    const Place at = PlaceOf(s, first + tile);
    for (std::int64_t v = 0; v < s.x.channels / kLanes; ++v) {
      Vector whole[kArea];
      TransformTile(s, at, x + at.image * image + VectorAt(s.x, v), whole);
      for (std::int64_t i = 0; i < kArea; ++i) {
        Store(to + i * matrix + tile * s.x.channels + v * kLanes, whole[i]);
      }
    }
  }
  for (std::int64_t i = 0; i < kArea; ++i) {
    for (std::int64_t at = count * s.x.channels; at < rows * s.x.channels; at += kLanes) {
      Store(to + i * matrix + at, Vector{});
    }
  }
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
