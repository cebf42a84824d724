#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/kernels/windows.h"

namespace lockstep::train::cuda::kernels {
namespace {

__device__ double AreaUnder(const WindowAxes& axes, std::int64_t p, std::int64_t q) {
  return static_cast<double>((axes.rows.Last(p) - axes.rows.First(p)) *
                             (axes.columns.Last(q) - axes.columns.First(q)));
}

}  // namespace

LOCKSTEP_KERNEL(MaxPool, const void* x, void* y, int type, std::int32_t* chosen, std::int64_t outer,
                std::int64_t inner, bool relu, LOCKSTEP_WINDOW_PARAMETERS) {
  LOCKSTEP_WINDOW_AXES;
  WithType(type, [=]<typename T>(T) {
    const std::int64_t size = outer * out_h * out_w * inner;
    ForEachGroup<T>(size, inner, [=]<unsigned kCount>(std::int64_t i) {
      Neighbors<float, kCount> best{};
      Neighbors<std::int32_t, kCount> number{};
      bool is_first = true;
      ForEachUnder(axes, PlaceOf(i, out_h, out_w, inner), inner, [&](int at, std::int64_t index) {
        const auto values = Load<kCount>(static_cast<const T*>(x), index);
        for (unsigned k = 0; k < kCount; ++k) {
          const float value = ToFloat(values.elements[k]), old = best.elements[k];
          // NaN wins, so that a pool does not hide divergence.
          if (is_first || (!(value <= old) && old == old)) {
            best.elements[k] = value;
            number.elements[k] = at;
          }
        }
        is_first = false;
      });
      Neighbors<T, kCount> result;
      for (unsigned k = 0; k < kCount; ++k) {
        if (relu && !(best.elements[k] > 0)) number.elements[k] = -1;
        result.elements[k] = FromFloat<T>(Rectified(best.elements[k], relu));
      }
      Store(chosen, i, number);
      Store(static_cast<T*>(y), i, result);
    });
  });
}

LOCKSTEP_KERNEL(MaxPoolBackward, const void* dy, const std::int32_t* chosen, void* dx, int type,
                std::int64_t outer, std::int64_t inner, LOCKSTEP_WINDOW_PARAMETERS) {
  LOCKSTEP_WINDOW_AXES;
  WithType(type, [=]<typename T>(T) {
    const std::int64_t size = outer * in_h * in_w * inner;
    ForEachGroup<T>(size, inner, [=]<unsigned kCount>(std::int64_t i) {
      const Place place = PlaceOf(i, in_h, in_w, inner);
      Neighbors<float, kCount> sum{};
      ForEachOver(axes, place, inner, [&](std::int64_t p, std::int64_t q, std::int64_t out) {
        const std::int64_t r = place.row - (p * stride_h - pad_h);
        const std::int64_t s = place.column - (q * stride_w - pad_w);
        const auto at = static_cast<int>(r * size_w + s);
        const auto numbers = Load<kCount>(chosen, out);
        const auto gradients = Load<kCount>(static_cast<const T*>(dy), out);
        for (unsigned k = 0; k < kCount; ++k) {
          if (numbers.elements[k] == at) sum.elements[k] += ToFloat(gradients.elements[k]);
        }
      });
      Neighbors<T, kCount> result;
      for (unsigned k = 0; k < kCount; ++k) result.elements[k] = FromFloat<T>(sum.elements[k]);
      Store(static_cast<T*>(dx), i, result);
    });
  });
}

LOCKSTEP_KERNEL(AveragePool, const void* x, void* y, int type, std::int64_t outer,
                std::int64_t inner, LOCKSTEP_WINDOW_PARAMETERS) {
  LOCKSTEP_WINDOW_AXES;
  WithType(type, [=]<typename T>(T) {
    ForEach(outer * out_h * out_w * inner, [=](std::int64_t i) {
      const Place place = PlaceOf(i, out_h, out_w, inner);
      double sum = 0;
      ForEachUnder(axes, place, inner, [&](int, std::int64_t index) {
        sum += static_cast<double>(ToFloat(static_cast<const T*>(x)[index]));
      });
      static_cast<T*>(y)[i] =
          FromFloat<T>(static_cast<float>(sum / AreaUnder(axes, place.row, place.column)));
    });
  });
}

LOCKSTEP_KERNEL(AveragePoolBackward, const void* dy, void* dx, int type, std::int64_t outer,
                std::int64_t inner, LOCKSTEP_WINDOW_PARAMETERS) {
  LOCKSTEP_WINDOW_AXES;
  WithType(type, [=]<typename T>(T) {
    ForEach(outer * in_h * in_w * inner, [=](std::int64_t i) {
      float sum = 0;
      ForEachOver(axes, PlaceOf(i, in_h, in_w, inner), inner,
                  [&](std::int64_t p, std::int64_t q, std::int64_t out) {
                    sum += static_cast<float>(ToFloat(static_cast<const T*>(dy)[out]) /
                                              AreaUnder(axes, p, q));
                  });
      static_cast<T*>(dx)[i] = FromFloat<T>(sum);
    });
  });
}

LOCKSTEP_BLOCK_KERNEL(GlobalAverage, const void* x, void* y, int type, std::int64_t area,
                      std::int64_t inner, int columns) {
  const auto lanes = static_cast<unsigned>(columns);
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.y) * lanes + threadIdx.x % lanes;
  const std::int64_t plane = static_cast<std::int64_t>(blockIdx.x) * area;
  double sum = 0;
  WithType(type, [&]<typename T>(T) {
    if (at >= inner) return;
    for (std::int64_t i = threadIdx.x / lanes; i < area; i += blockDim.x / lanes) {
      sum += static_cast<double>(ToFloat(static_cast<const T*>(x)[(plane + i) * inner + at]));
    }
  });
  sum = ColumnSum(sum, lanes);
  WithType(type, [=]<typename T>(T) {
    if (threadIdx.x >= lanes || at >= inner) return;
    static_cast<T*>(y)[blockIdx.x * inner + at] =
        FromFloat<T>(static_cast<float>(sum / static_cast<double>(area)));
  });
}

LOCKSTEP_KERNEL(GlobalAverageBackward, const void* dy, void* dx, int type, std::int64_t size,
                std::int64_t area, std::int64_t inner) {
  WithType(type, [=]<typename T>(T) {
    ForEach(size, [=](std::int64_t i) {
      const auto [pixel, at] = Divide(i, inner);
      const std::int64_t outer = Divide(pixel, area).quotient;
      const float gradient = ToFloat(static_cast<const T*>(dy)[outer * inner + at]);
      static_cast<T*>(dx)[i] = FromFloat<T>(gradient / static_cast<float>(area));
    });
  });
}

}  // namespace lockstep::train::cuda::kernels
