#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/kernels/windows.h"

namespace lockstep::train::cuda::kernels {

LOCKSTEP_KERNEL(Depthwise, const void* x, const void* weight, void* y, int type,
                std::int64_t images, std::int64_t channels, std::int64_t multiplier,
                LOCKSTEP_WINDOW_PARAMETERS) {
  LOCKSTEP_WINDOW_AXES;
  const std::int64_t filters = channels * multiplier;
  WithType(type, [=]<typename T>(T) {
    const auto convolve = [=]<unsigned kCount>(std::int64_t i) {
      Place place = PlaceOf(i, out_h, out_w, filters);
      const std::int64_t filter = place.inner;
      place.inner = multiplier == 1 ? filter : Divide(filter, multiplier).quotient;
      Neighbors<float, kCount> sum{};
      ForEachUnder(axes, place, channels, [&](int tap, std::int64_t index) {
        const auto values = Load<kCount>(static_cast<const T*>(x), index);
        const auto factors = Load<kCount>(static_cast<const T*>(weight), tap * filters + filter);
        for (unsigned k = 0; k < kCount; ++k) {
          sum.elements[k] += ToFloat(values.elements[k]) * ToFloat(factors.elements[k]);
        }
      });
      Neighbors<T, kCount> result;
      for (unsigned k = 0; k < kCount; ++k) result.elements[k] = FromFloat<T>(sum.elements[k]);
      Store(static_cast<T*>(y), i, result);
    };
    // With several filters for each channel, neighbors in y do not read neighbors in x, so each
    // element is computed by itself.
    ForEachGroup<T>(images * out_h * out_w * filters, multiplier == 1 ? channels : 1, convolve);
  });
}

LOCKSTEP_KERNEL(DepthwiseData, const void* dy, const void* weight, void* dx, int type,
                std::int64_t images, std::int64_t channels, std::int64_t multiplier,
                LOCKSTEP_WINDOW_PARAMETERS) {
  LOCKSTEP_WINDOW_AXES;
  const std::int64_t filters = channels * multiplier;
  WithType(type, [=]<typename T>(T) {
    const auto collect = [=]<unsigned kCount>(std::int64_t i) {
      Place place = PlaceOf(i, in_h, in_w, channels);
      const std::int64_t row = place.row, column = place.column, first = place.inner * multiplier;
      Neighbors<float, kCount> sum{};
      for (std::int64_t m = 0; m < multiplier; ++m) {
        place.inner = first + m;
        ForEachOver(axes, place, filters, [&](std::int64_t p, std::int64_t q, std::int64_t out) {
          const std::int64_t r = row - (p * stride_h - pad_h), s = column - (q * stride_w - pad_w);
          const auto gradients = Load<kCount>(static_cast<const T*>(dy), out);
          const auto factors =
              Load<kCount>(static_cast<const T*>(weight), (r * size_w + s) * filters + place.inner);
          for (unsigned k = 0; k < kCount; ++k) {
            sum.elements[k] += ToFloat(gradients.elements[k]) * ToFloat(factors.elements[k]);
          }
        });
      }
      Neighbors<T, kCount> result;
      for (unsigned k = 0; k < kCount; ++k) result.elements[k] = FromFloat<T>(sum.elements[k]);
      Store(static_cast<T*>(dx), i, result);
    };
    ForEachGroup<T>(images * in_h * in_w * channels, multiplier == 1 ? channels : 1, collect);
  });
}

LOCKSTEP_BLOCK_KERNEL(SumDepthwiseWeights, const void* x, const void* dy, int type, double* sums,
                      std::int64_t images, std::int64_t channels, std::int64_t multiplier,
                      int columns, LOCKSTEP_WINDOW_PARAMETERS) {
  const auto lanes = static_cast<unsigned>(columns);
  const std::int64_t filters = channels * multiplier;
  const std::int64_t tiles = (filters + columns - 1) / columns;
  const Quotient block = Divide(blockIdx.x, tiles);
  const std::int64_t tap = block.quotient;
  const Quotient corner = Divide(tap, size_w);
  const std::int64_t r = corner.quotient, s = corner.remainder;
  const std::int64_t filter = block.remainder * columns + threadIdx.x % lanes;
  const std::int64_t pixels = images * out_h * out_w;
  const std::int64_t end = pixels * (blockIdx.y + 1) / gridDim.y;
  const std::int64_t first = pixels * blockIdx.y / gridDim.y + threadIdx.x / lanes;
  float sum = 0;
  WithType(type, [&]<typename T>(T) {
    if (filter >= filters) return;
    const std::int64_t channel = Divide(filter, multiplier).quotient;
    for (std::int64_t pixel = first; pixel < end; pixel += blockDim.x / lanes) {
      const Place place = PlaceOf(pixel, out_h, out_w, 1);
      const std::int64_t h = place.row * stride_h - pad_h + r;
      const std::int64_t w = place.column * stride_w - pad_w + s;
      if (h < 0 || h >= in_h || w < 0 || w >= in_w) continue;
      const std::int64_t at = ((place.outer * in_h + h) * in_w + w) * channels + channel;
      sum += ToFloat(static_cast<const T*>(x)[at]) *
             ToFloat(static_cast<const T*>(dy)[pixel * filters + filter]);
    }
  });
  const double total = ColumnSum(static_cast<double>(sum), lanes);
  if (threadIdx.x >= lanes || filter >= filters) return;
  sums[(blockIdx.y * size_h * size_w + tap) * filters + filter] = total;
}

LOCKSTEP_KERNEL(AddDepthwiseWeights, const double* sums, std::int64_t parts, std::int64_t filters,
                std::int64_t taps, float* dweight) {
  ForEach(filters * taps, [=](std::int64_t i) {
    const auto [tap, filter] = Divide(i, filters);
    double total = 0;
    for (std::int64_t part = 0; part < parts; ++part) total += sums[part * filters * taps + i];
    dweight[filter * taps + tap] = static_cast<float>(total);
  });
}

}  // namespace lockstep::train::cuda::kernels
