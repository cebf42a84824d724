#include "trainer/backend/cuda/kernels/channels.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

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
      PairOf<float> own[kCount];  // float suffices: a thread adds at most a few hundred pixels
      ForEachPixel<kCount, 2>(shape, step->valid * area, lanes, [&](std::int64_t channel) {
        const ChannelNorms<kCount> norms(channel, means, inverse_deviations, gamma, beta);
        return [=, &own]<unsigned kAhead>(const Places<kAhead>& places) {
          const Values<kCount, kAhead, T> values(static_cast<const T*>(x), places);
          const Values<kCount, kAhead, T> gradients(static_cast<const T*>(dy), places);
          for (unsigned a = 0; a < kAhead; ++a) {
            for (unsigned k = 0; k < kCount; ++k) {
              const float x_hat = norms.normalized[k](ToFloat(values.at[a].elements[k]));
              const float gradient =
                  norms.Gradient(k, x_hat, ToFloat(gradients.at[a].elements[k]), relu);
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
      PairOf<float> own[kCount];  // float suffices: a thread adds at most a few hundred pixels
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

}  // namespace lockstep::train::cuda::kernels
