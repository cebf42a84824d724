#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/cpu/kernels/lanes.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

using Wide = Lanes<LOCKSTEP_LANES>::Float;
constexpr std::int64_t kLanes = LOCKSTEP_LANES;
constexpr std::int64_t kChannels = kBatchNormChannels;
// Terms that are added as floats. The mean of dy is subtracted from each dy, so that its error adds
// up in what is summed over dx, such as the gradient of a bias.
constexpr std::int64_t kPiece = 64, kGradientPiece = 16;

// A pixel's channels, one in each lane.
template <int kVectors>
struct Floats {
  static constexpr std::int64_t kWidth = kVectors * kLanes;  // floats of a pixel
  Wide at[kVectors];
};

template <int kVectors>
[[gnu::always_inline]] inline Floats<kVectors> Take(const float* from) {
  Floats<kVectors> floats;
  for (int v = 0; v < kVectors; ++v) floats.at[v] = Load<Wide>(from + v * kLanes);
  return floats;
}

// The result of the normalization, before the relu. Forward and backward both compute it, so that
// the backward pass need not read y to know what the relu has kept.
template <typename V>
[[gnu::always_inline]] inline V Normalized(V x, V mean, V scale, V shift) {
  return (x - mean) * scale + shift;
}

// Calls body(offset, pixels) for pieces of a run.
template <typename Body>
[[gnu::always_inline]] inline void ForPieces(std::int64_t pixels, std::int64_t most, Body body) {
  for (std::int64_t first = 0; first < pixels; first += most) {
    body(first, pixels - first < most ? pixels - first : most);
  }
}

// The sums of x - near and of its square, for a channel in a piece.
struct Piece {
  float near;
  double count, sum, square;
};

// Adds a piece to the moments of channel c, but for the count of pixels. Chan, Golub and LeVeque,
// "Algorithms for computing the sample variance", 1983.
[[gnu::always_inline]] inline void AddPiece(const Piece& piece, std::int64_t c,
                                            BatchNormMoments& moments) {
  const double share = piece.count / (moments.count + piece.count);
  const double distance = piece.near + piece.sum / piece.count - moments.mean[c];
  moments.mean[c] += distance * share;
  moments.squares[c] += piece.square - piece.sum * piece.sum / piece.count +
                        distance * distance * (moments.count * share);
}

template <int kVectors>
void MeasurePixels(const BatchNormRun& run, const float* x, BatchNormMoments& moments) {
  using F = Floats<kVectors>;
  ForPieces(run.pixels, kPiece, [&](std::int64_t first, std::int64_t pixels) {
    const float* const piece = x + first * run.step;
    // The sums are about a number near the mean, so that the squares do not cancel out.
    float near[kChannels];
    for (std::int64_t c = 0; c < F::kWidth; ++c) {
      near[c] = moments.count == 0 ? piece[c] : static_cast<float>(moments.mean[c]);
    }
    const F about = Take<kVectors>(near);
    F sum = {}, square = {};
    for (std::int64_t p = 0; p < pixels; ++p) {
      const F value = Take<kVectors>(piece + p * run.step);
      for (int v = 0; v < kVectors; ++v) {
        const Wide centered = value.at[v] - about.at[v];
        sum.at[v] += centered;
        square.at[v] += centered * centered;
      }
    }
    const double count = static_cast<double>(pixels);
    for (std::int64_t c = 0; c < F::kWidth; ++c) {
      const std::int64_t v = c / kLanes, lane = c % kLanes;
      AddPiece({near[c], count, sum.at[v][lane], square.at[v][lane]}, c, moments);
    }
    moments.count += count;
  });
}

// One channel whose pixels are adjacent.
void MeasurePlane(const BatchNormRun& run, const float* x, BatchNormMoments& moments) {
  ForPieces(run.pixels, kPiece * kLanes, [&](std::int64_t first, std::int64_t pixels) {
    const float* const piece = x + first;
    const float near = moments.count == 0 ? piece[0] : static_cast<float>(moments.mean[0]);
    Wide sums = {}, squares = {};
    std::int64_t i = 0;
    for (; i + kLanes <= pixels; i += kLanes) {
      const Wide centered = Load<Wide>(piece + i) - near;
      sums += centered;
      squares += centered * centered;
    }
    double sum = 0, square = 0;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sum += sums[lane];
      square += squares[lane];
    }
    for (; i < pixels; ++i) {
      const double centered = piece[i] - near;
      sum += centered;
      square += centered * centered;
    }
    const double count = static_cast<double>(pixels);
    AddPiece({near, count, sum, square}, 0, moments);
    moments.count += count;
  });
}

// Any number of channels.
void MeasureAny(const BatchNormRun& run, const float* x, BatchNormMoments& moments) {
  ForPieces(run.pixels, kPiece, [&](std::int64_t first, std::int64_t pixels) {
    const double count = static_cast<double>(pixels);
    for (std::int64_t c = 0; c < run.channels; ++c) {
      const float* const piece = x + first * run.step + c;
      const float near = moments.count == 0 ? piece[0] : static_cast<float>(moments.mean[c]);
      double sum = 0, square = 0;
      for (std::int64_t p = 0; p < pixels; ++p) {
        const double centered = piece[p * run.step] - near;
        sum += centered;
        square += centered * centered;
      }
      AddPiece({near, count, sum, square}, c, moments);
    }
    moments.count += count;
  });
}

template <int kVectors>
void NormalizePixels(const BatchNormRun& run, const BatchNormFactors& factors, const float* x,
                     float* y) {
  using F = Floats<kVectors>;
  const F mean = Take<kVectors>(factors.mean), scale = Take<kVectors>(factors.scale);
  const F shift = Take<kVectors>(factors.shift);
  for (std::int64_t p = 0; p < run.pixels; ++p) {
    const F value = Take<kVectors>(x + p * run.step);
    for (int v = 0; v < kVectors; ++v) {
      const Wide result = Normalized(value.at[v], mean.at[v], scale.at[v], shift.at[v]);
      const Wide zero = {};
      Store(y + p * run.step + v * kLanes, run.relu ? (result < zero ? zero : result) : result);
    }
  }
}

void NormalizeAny(const BatchNormRun& run, const BatchNormFactors& factors, const float* x,
                  float* y) {
  for (std::int64_t c = 0; c < run.channels; ++c) {
    const float mean = factors.mean[c], scale = factors.scale[c], shift = factors.shift[c];
    const auto one = [&](std::int64_t at) {
      const float result = Normalized(x[at], mean, scale, shift);
      y[at] = run.relu && result < 0 ? 0.0f : result;  // NaN is kept
    };
    if (run.step == 1) {
#pragma omp simd
      for (std::int64_t p = 0; p < run.pixels; ++p) one(p);
    } else {
      for (std::int64_t p = 0; p < run.pixels; ++p) one(p * run.step + c);
    }
  }
}

template <int kVectors>
void SumPixels(const BatchNormRun& run, const BatchNormFactors& factors, const float* x,
               const float* dy, BatchNormSums& sums) {
  using F = Floats<kVectors>;
  const F mean = Take<kVectors>(factors.mean), scale = Take<kVectors>(factors.scale);
  const F shift = Take<kVectors>(factors.shift), inverse = Take<kVectors>(factors.inverse);
  ForPieces(run.pixels, kGradientPiece, [&](std::int64_t first, std::int64_t pixels) {
    F dgamma = {}, dbeta = {};
    for (std::int64_t p = first; p < first + pixels; ++p) {
      const F value = Take<kVectors>(x + p * run.step);
      F gradient = Take<kVectors>(dy + p * run.step);
      for (int v = 0; v < kVectors; ++v) {
        const Wide zero = {};
        if (run.relu) {
          const Wide y = Normalized(value.at[v], mean.at[v], scale.at[v], shift.at[v]);
          gradient.at[v] = y > zero ? gradient.at[v] : zero;
        }
        dgamma.at[v] += gradient.at[v] * ((value.at[v] - mean.at[v]) * inverse.at[v]);
        dbeta.at[v] += gradient.at[v];
      }
    }
    for (std::int64_t c = 0; c < F::kWidth; ++c) {
      sums.dgamma[c] += dgamma.at[c / kLanes][c % kLanes];
      sums.dbeta[c] += dbeta.at[c / kLanes][c % kLanes];
    }
  });
}

void SumAny(const BatchNormRun& run, const BatchNormFactors& factors, const float* x,
            const float* dy, BatchNormSums& sums) {
  for (std::int64_t c = 0; c < run.channels; ++c) {
    const float mean = factors.mean[c], scale = factors.scale[c], shift = factors.shift[c];
    const float inverse = factors.inverse[c];
    // Lanes of a plane add up as many terms as a piece has.
    const std::int64_t most = run.step == 1 ? kGradientPiece * kLanes : kGradientPiece;
    ForPieces(run.pixels, most, [&](std::int64_t first, std::int64_t pixels) {
      float dgamma = 0, dbeta = 0;
      const auto one = [&](std::int64_t at) {
        const bool is_kept = !run.relu || Normalized(x[at], mean, scale, shift) > 0;
        const float gradient = is_kept ? dy[at] : 0.0f;
        dgamma += gradient * ((x[at] - mean) * inverse);
        dbeta += gradient;
      };
      if (run.step == 1) {
#pragma omp simd reduction(+ : dgamma, dbeta)
        for (std::int64_t p = first; p < first + pixels; ++p) one(p);
      } else {
        for (std::int64_t p = first; p < first + pixels; ++p) one(p * run.step + c);
      }
      sums.dgamma[c] += dgamma;
      sums.dbeta[c] += dbeta;
    });
  }
}

template <int kVectors>
void GradientPixels(const BatchNormRun& run, const BatchNormFactors& factors, const float* x,
                    const float* dy, float* dx) {
  using F = Floats<kVectors>;
  const F mean = Take<kVectors>(factors.mean), scale = Take<kVectors>(factors.scale);
  const F shift = Take<kVectors>(factors.shift);
  const F offset = Take<kVectors>(factors.offset), slope = Take<kVectors>(factors.slope);
  for (std::int64_t p = 0; p < run.pixels; ++p) {
    const F value = Take<kVectors>(x + p * run.step);
    F gradient = Take<kVectors>(dy + p * run.step);
    for (int v = 0; v < kVectors; ++v) {
      const Wide zero = {};
      if (run.relu) {
        const Wide y = Normalized(value.at[v], mean.at[v], scale.at[v], shift.at[v]);
        gradient.at[v] = y > zero ? gradient.at[v] : zero;
      }
      const Wide centered = value.at[v] - mean.at[v];
      Store(dx + p * run.step + v * kLanes,
            scale.at[v] * (gradient.at[v] - offset.at[v] - centered * slope.at[v]));
    }
  }
}

void GradientAny(const BatchNormRun& run, const BatchNormFactors& factors, const float* x,
                 const float* dy, float* dx) {
  for (std::int64_t c = 0; c < run.channels; ++c) {
    const float mean = factors.mean[c], scale = factors.scale[c], shift = factors.shift[c];
    const float offset = factors.offset[c], slope = factors.slope[c];
    const auto one = [&](std::int64_t at) {
      const bool is_kept = !run.relu || Normalized(x[at], mean, scale, shift) > 0;
      const float gradient = is_kept ? dy[at] : 0.0f;
      dx[at] = scale * (gradient - offset - (x[at] - mean) * slope);
    };
    if (run.step == 1) {
#pragma omp simd
      for (std::int64_t p = 0; p < run.pixels; ++p) one(p);
    } else {
      for (std::int64_t p = 0; p < run.pixels; ++p) one(p * run.step + c);
    }
  }
}

template <int kCount>
struct Width {
  static constexpr int kVectors = kCount;
};

// Calls body with how many vectors a pixel's channels fill, as a constant; 0 if they do not.
template <typename Body>
void ForWidth(std::int64_t channels, Body body) {
  if (channels == kLanes) return body(Width<1>{});
  if constexpr (2 * kLanes <= kChannels) {
    if (channels == 2 * kLanes) return body(Width<2>{});
  }
  if constexpr (4 * kLanes <= kChannels) {
    if (channels == 4 * kLanes) return body(Width<4>{});
  }
  body(Width<0>{});
}

void Measure(const BatchNormRun& run, const float* x, BatchNormMoments& moments) {
  ForWidth(run.channels, [&](auto width) {
    if constexpr (constexpr int kVectors = decltype(width)::kVectors; kVectors > 0) {
      MeasurePixels<kVectors>(run, x, moments);
    } else {
      run.step == 1 ? MeasurePlane(run, x, moments) : MeasureAny(run, x, moments);
    }
  });
}

void Normalize(const BatchNormRun& run, const BatchNormFactors& factors, const float* x, float* y) {
  ForWidth(run.channels, [&](auto width) {
    if constexpr (constexpr int kVectors = decltype(width)::kVectors; kVectors > 0) {
      NormalizePixels<kVectors>(run, factors, x, y);
    } else {
      NormalizeAny(run, factors, x, y);
    }
  });
}

void SumGradients(const BatchNormRun& run, const BatchNormFactors& factors, const float* x,
                  const float* dy, BatchNormSums& sums) {
  ForWidth(run.channels, [&](auto width) {
    if constexpr (constexpr int kVectors = decltype(width)::kVectors; kVectors > 0) {
      SumPixels<kVectors>(run, factors, x, dy, sums);
    } else {
      SumAny(run, factors, x, dy, sums);
    }
  });
}

void Gradient(const BatchNormRun& run, const BatchNormFactors& factors, const float* x,
              const float* dy, float* dx) {
  ForWidth(run.channels, [&](auto width) {
    if constexpr (constexpr int kVectors = decltype(width)::kVectors; kVectors > 0) {
      GradientPixels<kVectors>(run, factors, x, dy, dx);
    } else {
      GradientAny(run, factors, x, dy, dx);
    }
  });
}

}  // namespace

void Fill(BatchNormKernels& kernels) {
  kernels = {
      .batch_norm_measure = Measure,
      .batch_norm = Normalize,
      .batch_norm_sums = SumGradients,
      .batch_norm_backward = Gradient,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
