#include "trainer/backend/cuda/kernels/kernel.h"
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
  __device__ std::int64_t ChannelOf(std::int64_t i) const {
    if (are_inner) return Divide(i, channels).remainder;
    return Divide(Divide(i, area).quotient, channels).remainder;
  }
};

struct Pair {
  double first = 0, second = 0;
};

// Sums terms(pixel, channel, index in memory), a Pair, over this block's part of `pixels`, for its
// `columns` channels: blockIdx.x says which, and blockIdx.y which part. The sums of channel c are
// sums[2 * (part * channels + c)] and the one after it.
template <typename Terms>
__device__ void SumOverPixels(const Channels& shape, std::int64_t pixels, unsigned columns,
                              double* sums, const Terms& terms) {
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x) * columns + threadIdx.x % columns;
  const std::int64_t begin = pixels * blockIdx.y / gridDim.y;
  const std::int64_t end = pixels * (blockIdx.y + 1) / gridDim.y;
  Pair sum;
  if (channel < shape.channels) {
    for (std::int64_t pixel = begin + threadIdx.x / columns; pixel < end;
         pixel += blockDim.x / columns) {
      const Pair term = terms(pixel, channel, shape.At(pixel, channel));
      sum.first += term.first;
      sum.second += term.second;
    }
  }
  sum = {.first = ColumnSum(sum.first, columns), .second = ColumnSum(sum.second, columns)};
  if (threadIdx.x >= columns || channel >= shape.channels) return;
  double* own = sums + 2 * (blockIdx.y * shape.channels + channel);
  own[0] = sum.first;
  own[1] = sum.second;
}

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

LOCKSTEP_BLOCK_KERNEL(SumChannels, const float* x, double* sums, const StepContext* step,
                      std::int64_t rows, std::int64_t channels, std::int64_t area, bool are_inner,
                      int columns) {
  SumOverPixels({channels, area, are_inner}, (step == nullptr ? rows : step->valid) * area,
                static_cast<unsigned>(columns), sums,
                [=](std::int64_t, std::int64_t, std::int64_t i) {
                  const double value = x[i];
                  return Pair{.first = value, .second = value * value};
                });
}

LOCKSTEP_BLOCK_KERNEL(SumGradients, const float* x, const float* dy, const double* means,
                      const double* inverse_deviations, bool is_by_pixel, double* sums,
                      const StepContext* step, std::int64_t rows, std::int64_t channels,
                      std::int64_t area, bool are_inner, int columns) {
  SumOverPixels({channels, area, are_inner}, (step == nullptr ? rows : step->valid) * area,
                static_cast<unsigned>(columns), sums,
                [=](std::int64_t pixel, std::int64_t channel, std::int64_t i) {
                  const std::int64_t at = is_by_pixel ? pixel : channel;
                  const double gradient = dy[i];
                  const double x_hat = (x[i] - means[at]) * inverse_deviations[at];
                  return Pair{.first = gradient * x_hat, .second = gradient};
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

LOCKSTEP_KERNEL(NormalizeChannels, const float* x, const float* gamma, const float* beta,
                const double* means, const double* inverse_deviations, float* y, std::int64_t size,
                std::int64_t channels, std::int64_t area, bool are_inner) {
  const Channels shape{channels, area, are_inner};
  ForEach(size, [=](std::int64_t i) {
    const std::int64_t c = shape.ChannelOf(i);
    y[i] = static_cast<float>(gamma[c] * (x[i] - means[c]) * inverse_deviations[c] + beta[c]);
  });
}

LOCKSTEP_KERNEL(NormalizeChannelsBackward, const float* x, const float* dy, const float* gamma,
                const double* means, const double* inverse_deviations, const double* gradient_means,
                float* dx, std::int64_t size, const StepContext* step, std::int64_t channels,
                std::int64_t area, bool are_inner) {
  const Channels shape{channels, area, are_inner};
  const std::int64_t valid = step->valid * area * channels;
  ForEach(size, [=](std::int64_t i) {
    if (i >= valid) {
      dx[i] = 0;
      return;
    }
    const std::int64_t c = shape.ChannelOf(i);
    const double x_hat = (x[i] - means[c]) * inverse_deviations[c];
    const double centered = dy[i] - gradient_means[channels + c] - x_hat * gradient_means[c];
    dx[i] = static_cast<float>(gamma[c] * inverse_deviations[c] * centered);
  });
}

// The two passes over a pixel's channels are one over memory: the second finds them in the cache.
LOCKSTEP_BLOCK_KERNEL(NormalizePixels, const float* x, const float* gamma, const float* beta,
                      double* means, double* inverse_deviations, float* y, std::int64_t channels,
                      std::int64_t area, bool are_inner, float epsilon) {
  const Channels shape{channels, area, are_inner};
  const std::int64_t pixel = blockIdx.x;
  double sum = 0, squares = 0;
  for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) sum += x[shape.At(pixel, c)];
  const double mean = BlockSum(sum) / static_cast<double>(channels);
  for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
    const double centered = x[shape.At(pixel, c)] - mean;
    squares += centered * centered;
  }
  const double variance = BlockSum(squares) / static_cast<double>(channels);
  const double inverse_deviation = 1 / std::sqrt(variance + epsilon);
  for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
    const std::int64_t i = shape.At(pixel, c);
    const double scale = gamma == nullptr ? 1 : gamma[c];
    const double shift = beta == nullptr ? 0 : beta[c];
    y[i] = static_cast<float>(scale * ((x[i] - mean) * inverse_deviation) + shift);
  }
  if (threadIdx.x != 0) return;
  means[pixel] = mean;
  inverse_deviations[pixel] = inverse_deviation;
}

LOCKSTEP_BLOCK_KERNEL(NormalizePixelsBackward, const float* x, const float* dy, const float* gamma,
                      const double* means, const double* inverse_deviations, float* dx,
                      std::int64_t channels, std::int64_t area, bool are_inner) {
  const Channels shape{channels, area, are_inner};
  const std::int64_t pixel = blockIdx.x;
  const double mean = means[pixel], inverse_deviation = inverse_deviations[pixel];
  double sum = 0, sum_by_x = 0;
  for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
    const std::int64_t i = shape.At(pixel, c);
    const double g = (gamma == nullptr ? 1.0 : gamma[c]) * dy[i];
    sum += g;
    sum_by_x += g * ((x[i] - mean) * inverse_deviation);
  }
  const double mean_g = BlockSum(sum) / static_cast<double>(channels);
  const double mean_gx = BlockSum(sum_by_x) / static_cast<double>(channels);
  for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
    const std::int64_t i = shape.At(pixel, c);
    const double g = (gamma == nullptr ? 1.0 : gamma[c]) * dy[i];
    const double x_hat = (x[i] - mean) * inverse_deviation;
    dx[i] = static_cast<float>(inverse_deviation * (g - mean_g - x_hat * mean_gx));
  }
}

}  // namespace lockstep::train::cuda::kernels
