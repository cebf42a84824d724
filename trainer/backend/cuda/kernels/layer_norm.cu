#include "trainer/backend/cuda/kernels/channels.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

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
