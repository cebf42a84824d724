#include "trainer/backend/cuda/kernels/channels.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

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
                const StepContext* step, std::int64_t rows, std::int64_t channels,
                std::int64_t area, bool are_inner, int columns) {
  const Channels shape{channels, area, are_inner};
  const std::int64_t valid = step->valid * area;
  WithType(type, [=]<typename T>(T) {
    WithNeighbors<T>(shape, [=]<unsigned kCount>() {
      ForEachPixel<kCount, 2>(
          shape, rows * area, static_cast<unsigned>(columns), [=](std::int64_t channel) {
            const ChannelNorms<kCount> norms(channel, means, inverse_deviations, gamma, beta);
            return [=]<unsigned kAhead>(const Places<kAhead>& places) {
              const Values<kCount, kAhead, T> values(static_cast<const T*>(x), places);
              for (unsigned a = 0; a < kAhead; ++a) {
                Neighbors<T, kCount> result{};
                for (unsigned k = 0; k < kCount && places.pixel[a] < valid; ++k) {
                  const float x_hat = norms.normalized[k](ToFloat(values.at[a].elements[k]));
                  result.elements[k] = FromFloat<T>(Rectified(norms.affine[k](x_hat), relu));
                }
                Store(static_cast<T*>(y), places.index[a], result);
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
            const ChannelNorms<kCount> norms(channel, means, inverse_deviations, gamma, beta);
            float slopes[kCount], offsets[kCount];
            for (unsigned k = 0; k < kCount; ++k) {
              slopes[k] = static_cast<float>(gradient_means[channel + k]);
              offsets[k] = static_cast<float>(gradient_means[channels + channel + k]);
            }
            return [=]<unsigned kAhead>(const Places<kAhead>& places) {
              const Values<kCount, kAhead, T> values(static_cast<const T*>(x), places);
              const Values<kCount, kAhead, T> gradients(static_cast<const T*>(dy), places);
              for (unsigned a = 0; a < kAhead; ++a) {
                Neighbors<T, kCount> result{};
                for (unsigned k = 0; k < kCount && places.pixel[a] < valid; ++k) {
                  const float x_hat = norms.normalized[k](ToFloat(values.at[a].elements[k]));
                  const float gradient =
                      norms.Gradient(k, x_hat, ToFloat(gradients.at[a].elements[k]), relu);
                  result.elements[k] =
                      FromFloat<T>(norms.affine[k].gamma * norms.normalized[k].inverse_deviation *
                                   (gradient - offsets[k] - x_hat * slopes[k]));
                }
                Store(static_cast<T*>(dx), places.index[a], result);
              }
            };
          });
    });
  });
}

}  // namespace lockstep::train::cuda::kernels
