#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {
namespace {

// An image's channels: neighbors in memory, as in a matrix, or `area` pixels apart.
struct Channels {
  std::int64_t channels = 0, area = 0;
  bool are_inner = false;

  // The index in memory of `channel` in pixel `pixel` of all images.
  __device__ std::int64_t At(std::int64_t pixel, std::int64_t channel) const {
    if (are_inner) return pixel * channels + channel;
    const auto [n, at] = Divide(pixel, area);
    return (n * channels + channel) * area + at;
  }
};

// Pixels, and where a thread's channels of them are in memory.
template <unsigned kAhead>
struct Places {
  std::int64_t pixel[kAhead], index[kAhead];
};

// The elements at those places.
template <unsigned kCount, unsigned kAhead, typename T>
struct Values {
  Neighbors<T, kCount> at[kAhead];
  __device__ Values(const T* x, const Places<kAhead>& places) {
    for (unsigned a = 0; a < kAhead; ++a) at[a] = Load<kCount>(x, places.index[a]);
  }
};

// Calls body<kCount>() with how many channels a thread works on: as many as memory moves at once,
// if they are neighbors.
template <typename T, typename Body>
__device__ void WithNeighbors(const Channels& shape, const Body& body) {
  constexpr unsigned kCount = kMostNeighbors<T>;
  if (shape.are_inner && shape.channels % kCount == 0) {
    body.template operator()<kCount>();
  } else {
    body.template operator()<1>();
  }
}

// Lets each thread visit kCount channels of its block's part of `pixels`: blockIdx.y says which
// part, and blockIdx.x which `columns` * kCount channels. `make` returns, for the thread's first
// channel, what to call with an array of kAhead pixels, or of one: memory is slow to answer, so
// several reads must be under way.
template <unsigned kCount, unsigned kAhead, typename Make>
__device__ void ForEachPixel(const Channels& shape, std::int64_t pixels, unsigned columns,
                             const Make& make) {
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * columns + threadIdx.x % columns;
  const std::int64_t channel = column * kCount;
  if (channel >= shape.channels) return;
  const std::int64_t begin = pixels * blockIdx.y / gridDim.y;
  const std::int64_t end = pixels * (blockIdx.y + 1) / gridDim.y;
  const std::int64_t stride = blockDim.x / columns;
  const auto visit = make(channel);
  std::int64_t pixel = begin + threadIdx.x / columns;
  for (; pixel + (kAhead - 1) * stride < end; pixel += kAhead * stride) {
    Places<kAhead> places;
    for (unsigned a = 0; a < kAhead; ++a) {
      places.pixel[a] = pixel + a * stride;
      places.index[a] = shape.At(places.pixel[a], channel);
    }
    visit(places);
  }
  for (; pixel < end; pixel += stride) {
    visit(Places<1>{.pixel = {pixel}, .index = {shape.At(pixel, channel)}});
  }
}

template <typename Number>
struct PairOf {
  Number first = 0, second = 0;
};
using Pair = PairOf<double>;

// Writes the sums over the block's threads of what each has summed by ForEachPixel: those of
// channel c are sums[2 * (blockIdx.y * channels + c)] and the one after it.
template <unsigned kCount, typename Number>
__device__ void WriteSums(const Channels& shape, unsigned columns,
                          const PairOf<Number> (&own)[kCount], double* sums) {
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * columns + threadIdx.x % columns;
  for (unsigned k = 0; k < kCount; ++k) {
    const Pair sum = {.first = ColumnSum(static_cast<double>(own[k].first), columns),
                      .second = ColumnSum(static_cast<double>(own[k].second), columns)};
    const std::int64_t channel = column * kCount + k;
    if (threadIdx.x >= columns || channel >= shape.channels) continue;
    double* const target = sums + 2 * (blockIdx.y * shape.channels + channel);
    target[0] = sum.first;
    target[1] = sum.second;
  }
}

// Normalizes in float32. The mean is in two parts, so that it loses no digits of values that are
// close to it.
struct Normalizing {
  float mean = 0, rest = 0, inverse_deviation = 0;

  Normalizing() = default;
  __device__ Normalizing(double exact_mean, double deviation_inverse)
      : mean(static_cast<float>(exact_mean)),
        rest(static_cast<float>(exact_mean - mean)),
        inverse_deviation(static_cast<float>(deviation_inverse)) {}
  __device__ float operator()(float x) const { return (x - mean - rest) * inverse_deviation; }
};

// A channel's y = x_hat * gamma + beta.
struct Affine {
  float gamma = 1, beta = 0;
  __device__ float operator()(float x_hat) const { return x_hat * gamma + beta; }
};

// The sum of channel blockIdx.x over the parts, to every thread.
__device__ Pair SumOfParts(const double* sums, std::int64_t parts, std::int64_t channels) {
  Pair sum;
  for (std::int64_t part = threadIdx.x; part < parts; part += blockDim.x) {
    const double* own = sums + 2 * (part * channels + blockIdx.x);
    sum.first += own[0];
    sum.second += own[1];
  }
  return {.first = BlockSum(sum.first), .second = BlockSum(sum.second)};
}

}  // namespace

LOCKSTEP_BLOCK_KERNEL(SumChannels, const void* x, int type, double* sums, const StepContext* step,
                      std::int64_t channels, std::int64_t area, bool are_inner, int columns) {
  const Channels shape{channels, area, are_inner};
  const auto lanes = static_cast<unsigned>(columns);
  WithType(type, [=]<typename T>(T) {
    WithNeighbors<T>(shape, [=]<unsigned kCount>() {
      Pair own[kCount];
      ForEachPixel<kCount, 4>(shape, step->valid * area, lanes, [&](std::int64_t) {
        return [&]<unsigned kAhead>(const Places<kAhead>& places) {
          const Values<kCount, kAhead, T> values(static_cast<const T*>(x), places);
          for (unsigned a = 0; a < kAhead; ++a) {
            for (unsigned k = 0; k < kCount; ++k) {
              const double value = ToFloat(values.at[a].elements[k]);
              own[k].first += value;
              own[k].second += value * value;
            }
          }
        };
      });
      WriteSums(shape, lanes, own, sums);
    });
  });
}

LOCKSTEP_BLOCK_KERNEL(SumMasked, const void* y, void* dy, int type, double* sums, std::int64_t rows,
                      std::int64_t channels, int columns) {
  const Channels shape{channels, 1, true};
  const auto lanes = static_cast<unsigned>(columns);
  WithType(type, [=]<typename T>(T) {
    WithNeighbors<T>(shape, [=]<unsigned kCount>() {
      Pair own[kCount];
      ForEachPixel<kCount, 2>(shape, rows, lanes, [&](std::int64_t) {
        return [&]<unsigned kAhead>(const Places<kAhead>& places) {
          Values<kCount, kAhead, T> gradients(static_cast<const T*>(dy), places);
          if (y != nullptr) {
            const Values<kCount, kAhead, T> values(static_cast<const T*>(y), places);
            for (unsigned a = 0; a < kAhead; ++a) {
              for (unsigned k = 0; k < kCount; ++k) {
                if (!(ToFloat(values.at[a].elements[k]) > 0)) gradients.at[a].elements[k] = T{};
              }
              Store(static_cast<T*>(dy), places.index[a], gradients.at[a]);
            }
          }
          for (unsigned a = 0; a < kAhead; ++a) {
            for (unsigned k = 0; k < kCount; ++k) {
              own[k].second += static_cast<double>(ToFloat(gradients.at[a].elements[k]));
            }
          }
        };
      });
      WriteSums(shape, lanes, own, sums);
    });
  });
}

LOCKSTEP_BLOCK_KERNEL(SumGradients, const void* x, const void* dy, int type, const float* gamma,
                      const float* beta, const double* means, const double* inverse_deviations,
                      bool relu, double* sums, const StepContext* step, std::int64_t channels,
                      std::int64_t area, bool are_inner, int columns) {
  const Channels shape{channels, area, are_inner};
  const auto lanes = static_cast<unsigned>(columns);
  WithType(type, [=]<typename T>(T) {
    WithNeighbors<T>(shape, [=]<unsigned kCount>() {
      PairOf<float> own[kCount];  // a thread has a few hundred pixels
      ForEachPixel<kCount, 2>(shape, step->valid * area, lanes, [&](std::int64_t channel) {
        Normalizing normalized[kCount];
        Affine affine[kCount];
        for (unsigned k = 0; k < kCount; ++k) {
          const std::int64_t c = channel + k;
          normalized[k] = {means[c], inverse_deviations[c]};
          if (relu) affine[k] = {gamma[c], beta[c]};
        }
        return [=, &own]<unsigned kAhead>(const Places<kAhead>& places) {
          const Values<kCount, kAhead, T> values(static_cast<const T*>(x), places);
          const Values<kCount, kAhead, T> gradients(static_cast<const T*>(dy), places);
          for (unsigned a = 0; a < kAhead; ++a) {
            for (unsigned k = 0; k < kCount; ++k) {
              const float x_hat = normalized[k](ToFloat(values.at[a].elements[k]));
              const bool passes = !relu || affine[k](x_hat) > 0;
              const float gradient = passes ? ToFloat(gradients.at[a].elements[k]) : 0.0f;
              own[k].first += gradient * x_hat;
              own[k].second += gradient;
            }
          }
        };
      });
      WriteSums(shape, lanes, own, sums);
    });
  });
}

LOCKSTEP_BLOCK_KERNEL(SumGradientsByPixel, const void* x, const void* dy, int type,
                      const double* means, const double* inverse_deviations, double* sums,
                      std::int64_t pixels, std::int64_t channels, std::int64_t area, bool are_inner,
                      int columns) {
  const Channels shape{channels, area, are_inner};
  const auto lanes = static_cast<unsigned>(columns);
  WithType(type, [=]<typename T>(T) {
    WithNeighbors<T>(shape, [=]<unsigned kCount>() {
      PairOf<float> own[kCount];  // a thread has a few hundred pixels
      ForEachPixel<kCount, 2>(shape, pixels, lanes, [&](std::int64_t) {
        return [&]<unsigned kAhead>(const Places<kAhead>& places) {
          const Values<kCount, kAhead, T> values(static_cast<const T*>(x), places);
          const Values<kCount, kAhead, T> gradients(static_cast<const T*>(dy), places);
          for (unsigned a = 0; a < kAhead; ++a) {
            const std::int64_t pixel = places.pixel[a];
            const Normalizing normalized(means[pixel], inverse_deviations[pixel]);
            for (unsigned k = 0; k < kCount; ++k) {
              const float gradient = ToFloat(gradients.at[a].elements[k]);
              own[k].first += gradient * normalized(ToFloat(values.at[a].elements[k]));
              own[k].second += gradient;
            }
          }
        };
      });
      WriteSums(shape, lanes, own, sums);
    });
  });
}

LOCKSTEP_BLOCK_KERNEL(WriteGradients, const double* sums, std::int64_t parts, std::int64_t channels,
                      float* dgamma, float* dbeta, double* means, const StepContext* step,
                      std::int64_t area) {
  const Pair sum = SumOfParts(sums, parts, channels);
  const std::int64_t channel = blockIdx.x;
  if (threadIdx.x != 0) return;
  if (dgamma != nullptr) dgamma[channel] = static_cast<float>(sum.first);
  if (dbeta != nullptr) dbeta[channel] = static_cast<float>(sum.second);
  if (means == nullptr) return;
  const auto pixels = static_cast<double>(step->valid * area);
  means[channel] = sum.first / pixels;
  means[channels + channel] = sum.second / pixels;
}

// In float64, the mean of the squares less the square of the mean has more digits than the variance
// of float32 values.
LOCKSTEP_BLOCK_KERNEL(MeasureChannels, const double* sums, std::int64_t parts,
                      std::int64_t channels, const StepContext* step, std::int64_t area,
                      float momentum, float epsilon, float* moving_means, float* moving_variances,
                      double* means, double* inverse_deviations) {
  const Pair sum = SumOfParts(sums, parts, channels);
  if (threadIdx.x != 0) return;
  const std::int64_t channel = blockIdx.x;
  double mean = moving_means[channel], variance = moving_variances[channel];
  if (step->valid > 0) {
    const auto pixels = static_cast<double>(step->valid * area);
    const double keep = momentum, mean_square = sum.second / pixels;
    mean = sum.first / pixels;
    variance = mean_square - mean * mean;
    if (variance < 0) variance = 0;  // rounded so; NaN stays
    moving_means[channel] = static_cast<float>(keep * moving_means[channel] + (1 - keep) * mean);
    moving_variances[channel] =
        static_cast<float>(keep * moving_variances[channel] + (1 - keep) * variance);
  }
  means[channel] = mean;
  inverse_deviations[channel] = 1 / std::sqrt(variance + epsilon);
}

LOCKSTEP_KERNEL(TakeMovingMoments, const float* moving_means, const float* moving_variances,
                std::int64_t channels, float epsilon, double* means, double* inverse_deviations) {
  ForEach(channels, [=](std::int64_t c) {
    means[c] = moving_means[c];
    inverse_deviations[c] = 1 / std::sqrt(static_cast<double>(moving_variances[c]) + epsilon);
  });
}

LOCKSTEP_KERNEL(NormalizeChannels, const void* x, void* y, int type, const float* gamma,
                const float* beta, const double* means, const double* inverse_deviations, bool relu,
                std::int64_t rows, std::int64_t channels, std::int64_t area, bool are_inner,
                int columns) {
  const Channels shape{channels, area, are_inner};
  WithType(type, [=]<typename T>(T) {
    WithNeighbors<T>(shape, [=]<unsigned kCount>() {
      ForEachPixel<kCount, 2>(
          shape, rows * area, static_cast<unsigned>(columns), [=](std::int64_t channel) {
            Normalizing normalized[kCount];
            Affine affine[kCount];
            for (unsigned k = 0; k < kCount; ++k) {
              const std::int64_t c = channel + k;
              normalized[k] = {means[c], inverse_deviations[c]};
              affine[k] = {gamma[c], beta[c]};
            }
            return [=]<unsigned kAhead>(const Places<kAhead>& places) {
              Values<kCount, kAhead, T> values(static_cast<const T*>(x), places);
              for (unsigned a = 0; a < kAhead; ++a) {
                for (unsigned k = 0; k < kCount; ++k) {
                  T& element = values.at[a].elements[k];
                  element =
                      FromFloat<T>(Rectified(affine[k](normalized[k](ToFloat(element))), relu));
                }
                Store(static_cast<T*>(y), places.index[a], values.at[a]);
              }
            };
          });
    });
  });
}

LOCKSTEP_KERNEL(NormalizeChannelsBackward, const void* x, const void* dy, void* dx, int type,
                const float* gamma, const float* beta, const double* means,
                const double* inverse_deviations, const double* gradient_means, bool relu,
                const StepContext* step, std::int64_t rows, std::int64_t channels,
                std::int64_t area, bool are_inner, int columns) {
  const Channels shape{channels, area, are_inner};
  const std::int64_t valid = step->valid * area;
  WithType(type, [=]<typename T>(T) {
    WithNeighbors<T>(shape, [=]<unsigned kCount>() {
      ForEachPixel<kCount, 2>(
          shape, rows * area, static_cast<unsigned>(columns), [=](std::int64_t channel) {
            Normalizing normalized[kCount];
            Affine affine[kCount];
            float slopes[kCount], offsets[kCount];
            for (unsigned k = 0; k < kCount; ++k) {
              const std::int64_t c = channel + k;
              normalized[k] = {means[c], inverse_deviations[c]};
              affine[k] = {gamma[c], beta[c]};
              slopes[k] = static_cast<float>(gradient_means[c]);
              offsets[k] = static_cast<float>(gradient_means[channels + c]);
            }
            return [=]<unsigned kAhead>(const Places<kAhead>& places) {
              const Values<kCount, kAhead, T> values(static_cast<const T*>(x), places);
              const Values<kCount, kAhead, T> gradients(static_cast<const T*>(dy), places);
              for (unsigned a = 0; a < kAhead; ++a) {
                Neighbors<T, kCount> result{};
                for (unsigned k = 0; k < kCount && places.pixel[a] < valid; ++k) {
                  const float x_hat = normalized[k](ToFloat(values.at[a].elements[k]));
                  const bool passes = !relu || affine[k](x_hat) > 0;
                  const float gradient = passes ? ToFloat(gradients.at[a].elements[k]) : 0.0f;
                  result.elements[k] =
                      FromFloat<T>(affine[k].gamma * normalized[k].inverse_deviation *
                                   (gradient - offsets[k] - x_hat * slopes[k]));
                }
                Store(static_cast<T*>(dx), places.index[a], result);
              }
            };
          });
    });
  });
}

// The two passes over a pixel's channels are one over memory: the second finds them in the cache.
LOCKSTEP_BLOCK_KERNEL(NormalizePixels, const void* x, void* y, int type, const float* gamma,
                      const float* beta, double* means, double* inverse_deviations,
                      std::int64_t channels, std::int64_t area, bool are_inner, float epsilon) {
  const Channels shape{channels, area, are_inner};
  const std::int64_t pixel = blockIdx.x;
  WithType(type, [=]<typename T>(T) {
    const auto at = [=](std::int64_t c) {
      return static_cast<double>(ToFloat(static_cast<const T*>(x)[shape.At(pixel, c)]));
    };
    double sum = 0, squares = 0;
    for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) sum += at(c);
    const double mean = BlockSum(sum) / static_cast<double>(channels);
    for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
      const double centered = at(c) - mean;
      squares += centered * centered;
    }
    const double variance = BlockSum(squares) / static_cast<double>(channels);
    const double inverse_deviation = 1 / std::sqrt(variance + epsilon);
    for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
      const double scale = gamma == nullptr ? 1 : gamma[c];
      const double shift = beta == nullptr ? 0 : beta[c];
      static_cast<T*>(y)[shape.At(pixel, c)] =
          FromFloat<T>(static_cast<float>(scale * ((at(c) - mean) * inverse_deviation) + shift));
    }
    if (threadIdx.x != 0) return;
    means[pixel] = mean;
    inverse_deviations[pixel] = inverse_deviation;
  });
}

LOCKSTEP_BLOCK_KERNEL(NormalizePixelsBackward, const void* x, const void* dy, void* dx, int type,
                      const float* gamma, const double* means, const double* inverse_deviations,
                      std::int64_t channels, std::int64_t area, bool are_inner) {
  const Channels shape{channels, area, are_inner};
  const std::int64_t pixel = blockIdx.x;
  const double mean = means[pixel], inverse_deviation = inverse_deviations[pixel];
  WithType(type, [=]<typename T>(T) {
    const auto x_hat = [=](std::int64_t i) {
      return (ToFloat(static_cast<const T*>(x)[i]) - mean) * inverse_deviation;
    };
    const auto gradient = [=](std::int64_t i, std::int64_t c) {
      return (gamma == nullptr ? 1.0 : gamma[c]) * ToFloat(static_cast<const T*>(dy)[i]);
    };
    double sum = 0, sum_by_x = 0;
    for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
      const std::int64_t i = shape.At(pixel, c);
      const double g = gradient(i, c);
      sum += g;
      sum_by_x += g * x_hat(i);
    }
    const double mean_g = BlockSum(sum) / static_cast<double>(channels);
    const double mean_gx = BlockSum(sum_by_x) / static_cast<double>(channels);
    for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
      const std::int64_t i = shape.At(pixel, c);
      static_cast<T*>(dx)[i] = FromFloat<T>(
          static_cast<float>(inverse_deviation * (gradient(i, c) - mean_g - x_hat(i) * mean_gx)));
    }
  });
}

}  // namespace lockstep::train::cuda::kernels
