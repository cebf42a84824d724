#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/cpu/kernels/lanes.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

using Vector = Lanes<LOCKSTEP_LANES>::Float;
constexpr std::int64_t kLanes = LOCKSTEP_LANES;
constexpr std::int64_t kSums = 4;         // independent ones hide the latency of an addition
constexpr std::int64_t kPiece = 1024;     // floats that are summed as floats
constexpr std::int64_t kNeighbours = 32;  // vectors of planes at once

// The sum of x - mean, or of its square.
template <bool kSquared>
[[gnu::always_inline]] inline float Sum(const float* x, std::int64_t size, float mean) {
  Vector sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums * kLanes <= size; i += kSums * kLanes) {
    for (std::int64_t j = 0; j < kSums; ++j) {
      const Vector v = Load<Vector>(x + i + j * kLanes) - mean;
      sums[j] += kSquared ? v * v : v;
    }
  }
  for (; i + kLanes <= size; i += kLanes) {
    const Vector v = Load<Vector>(x + i) - mean;
    sums[0] += kSquared ? v * v : v;
  }
  const Vector sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float total = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) total += sum[lane];
  for (; i < size; ++i) {
    const float v = x[i] - mean;
    total += kSquared ? v * v : v;
  }
  return total;
}

// Calls body(offset, first channel, size) for the adjacent channels of a vector, in pieces.
template <typename Body>
[[gnu::always_inline]] inline void ForPieces(const LayerNormShape& s, Body body) {
  for (std::int64_t c = 0, at = 0; c < s.channels; c += s.inner, at += s.block) {
    const std::int64_t run = s.channels - c < s.inner ? s.channels - c : s.inner;
    for (std::int64_t i = 0; i < run; i += kPiece) {
      body(at + i, c + i, run - i < kPiece ? run - i : kPiece);
    }
  }
}

// Zeroes what the last block has beyond the channels.
[[gnu::always_inline]] inline void ZeroRest(const LayerNormShape& s, float* vector) {
  const std::int64_t blocks = (s.channels + s.inner - 1) / s.inner;
  const std::int64_t used = s.channels - (blocks - 1) * s.inner;
  for (std::int64_t i = used; i < s.inner; ++i) vector[(blocks - 1) * s.block + i] = 0;
}

void Normalize(const LayerNormShape& s, const LayerNormPass& pass, const float* x, float* y,
               float* moments) {
  double sum = 0, square = 0;
  ForPieces(s, [&](std::int64_t at, std::int64_t, std::int64_t size) {
    sum += Sum<false>(x + at, size, 0);
  });
  const double count = static_cast<double>(s.channels);
  const float mean = static_cast<float>(sum / count);
  ForPieces(s, [&](std::int64_t at, std::int64_t, std::int64_t size) {
    square += Sum<true>(x + at, size, mean);
  });
  const float inverse = static_cast<float>(1 / __builtin_sqrt(square / count + s.epsilon));
  moments[0] = mean;
  moments[1] = inverse;
  ForPieces(s, [&](std::int64_t at, std::int64_t c, std::int64_t size) {
    const float* const gamma = pass.gamma + c;
    const float* const beta = pass.beta + c;
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      y[at + i] = (x[at + i] - mean) * inverse * gamma[i] + beta[i];
    }
  });
  ZeroRest(s, y);
}

// The same for `count` vectors, at most kNeighbours, that are next to each other in each plane.
void NormalizePlanes(const LayerNormShape& s, const LayerNormPass& pass, std::int64_t first,
                     std::int64_t count) {
  const float* const x = pass.x + first;
  float* const y = pass.y + first;
  double sums[kNeighbours] = {}, squares[kNeighbours] = {};
  float mean[kNeighbours], inverse[kNeighbours];
  for (std::int64_t c = 0; c < s.channels; ++c) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sums[i] += x[c * s.block + i];
  }
  const double channels = static_cast<double>(s.channels);
  for (std::int64_t i = 0; i < count; ++i) mean[i] = static_cast<float>(sums[i] / channels);
  for (std::int64_t c = 0; c < s.channels; ++c) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const float v = x[c * s.block + i] - mean[i];
      squares[i] += v * v;
    }
  }
  float* const moments = pass.moments + 2 * first;
  for (std::int64_t i = 0; i < count; ++i) {
    inverse[i] = static_cast<float>(1 / __builtin_sqrt(squares[i] / channels + s.epsilon));
    moments[2 * i] = mean[i];
    moments[2 * i + 1] = inverse[i];
  }
  for (std::int64_t c = 0; c < s.channels; ++c) {
    const float gamma = pass.gamma[c], beta = pass.beta[c];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      y[c * s.block + i] = (x[c * s.block + i] - mean[i]) * inverse[i] * gamma + beta;
    }
  }
}

// See reference/layer_norm.cc for the formula.
void NormalizeBackward(const LayerNormShape& s, const LayerNormGradient& pass,
                       std::int64_t vector) {
  const float* const x = pass.x + vector * s.step;
  const float* const dy = pass.dy + vector * s.step;
  const float mean = pass.moments[2 * vector], inverse = pass.moments[2 * vector + 1];
  double sum_g = 0, sum_gx = 0;
  ForPieces(s, [&](std::int64_t at, std::int64_t c, std::int64_t size) {
    const float* const gamma = pass.gamma + c;
    double* const dgamma = pass.dgamma + c;
    double* const dbeta = pass.dbeta + c;
    float g_piece = 0, gx_piece = 0;
#pragma omp simd reduction(+ : g_piece, gx_piece)
    for (std::int64_t i = 0; i < size; ++i) {
      const float x_hat = (x[at + i] - mean) * inverse, g = gamma[i] * dy[at + i];
      g_piece += g;
      gx_piece += g * x_hat;
      dgamma[i] += dy[at + i] * x_hat;
      dbeta[i] += dy[at + i];
    }
    sum_g += g_piece;
    sum_gx += gx_piece;
  });
  if (pass.dx == nullptr) return;
  float* const dx = pass.dx + vector * s.step;
  const double count = static_cast<double>(s.channels);
  const float mean_g = static_cast<float>(sum_g / count);
  const float mean_gx = static_cast<float>(sum_gx / count);
  ForPieces(s, [&](std::int64_t at, std::int64_t c, std::int64_t size) {
    const float* const gamma = pass.gamma + c;
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      const float x_hat = (x[at + i] - mean) * inverse;
      dx[at + i] = inverse * (gamma[i] * dy[at + i] - mean_g - x_hat * mean_gx);
    }
  });
  ZeroRest(s, dx);
}

void NormalizePlanesBackward(const LayerNormShape& s, const LayerNormGradient& pass,
                             std::int64_t first, std::int64_t count) {
  const float* const x = pass.x + first;
  const float* const dy = pass.dy + first;
  double sum_g[kNeighbours] = {}, sum_gx[kNeighbours] = {};
  float mean[kNeighbours], inverse[kNeighbours], mean_g[kNeighbours], mean_gx[kNeighbours];
  for (std::int64_t i = 0; i < count; ++i) {
    mean[i] = pass.moments[2 * (first + i)];
    inverse[i] = pass.moments[2 * (first + i) + 1];
  }
  for (std::int64_t c = 0; c < s.channels; ++c) {
    const float gamma = pass.gamma[c];
    float dgamma = 0, dbeta = 0;
#pragma omp simd reduction(+ : dgamma, dbeta)
    for (std::int64_t i = 0; i < count; ++i) {
      const float x_hat = (x[c * s.block + i] - mean[i]) * inverse[i], d = dy[c * s.block + i];
      dgamma += d * x_hat;
      dbeta += d;
      sum_g[i] += gamma * d;
      sum_gx[i] += gamma * d * x_hat;
    }
    pass.dgamma[c] += dgamma;
    pass.dbeta[c] += dbeta;
  }
  if (pass.dx == nullptr) return;
  float* const dx = pass.dx + first;
  const double channels = static_cast<double>(s.channels);
  for (std::int64_t i = 0; i < count; ++i) {
    mean_g[i] = static_cast<float>(sum_g[i] / channels);
    mean_gx[i] = static_cast<float>(sum_gx[i] / channels);
  }
  for (std::int64_t c = 0; c < s.channels; ++c) {
    const float gamma = pass.gamma[c];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const float x_hat = (x[c * s.block + i] - mean[i]) * inverse[i];
      dx[c * s.block + i] =
          inverse[i] * (gamma * dy[c * s.block + i] - mean_g[i] - x_hat * mean_gx[i]);
    }
  }
}

// Calls body(first, count) for the vectors in groups of at most kNeighbours.
template <typename Body>
void ForNeighbours(std::int64_t count, Body body) {
  for (std::int64_t first = 0; first < count; first += kNeighbours) {
    body(first, count - first < kNeighbours ? count - first : kNeighbours);
  }
}

void LayerNorm(const LayerNormShape& shape, const LayerNormPass& pass) {
  if (shape.inner == 1) {
    ForNeighbours(pass.count, [&](std::int64_t first, std::int64_t count) {
      NormalizePlanes(shape, pass, first, count);
    });
    return;
  }
  for (std::int64_t i = 0; i < pass.count; ++i) {
    Normalize(shape, pass, pass.x + i * shape.step, pass.y + i * shape.step, pass.moments + 2 * i);
  }
}

void LayerNormBackward(const LayerNormShape& shape, const LayerNormGradient& pass) {
  if (shape.inner == 1) {
    ForNeighbours(pass.count, [&](std::int64_t first, std::int64_t count) {
      NormalizePlanesBackward(shape, pass, first, count);
    });
    return;
  }
  for (std::int64_t i = 0; i < pass.count; ++i) NormalizeBackward(shape, pass, i);
}

}  // namespace

void Fill(LayerNormKernels& kernels) {
  kernels = {
      .layer_norm = LayerNorm,
      .layer_norm_backward = LayerNormBackward,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
