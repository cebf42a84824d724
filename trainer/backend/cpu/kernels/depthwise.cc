// Depthwise convolutions, each channel with a kernel of its own: over rows of planes of height x
// width x inner floats, kLanes channels at a time, and over planes of one channel.
#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/cpu/kernels/lanes.h"
#include "trainer/backend/cpu/kernels/planes.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

// Neighbors in a row that are computed together, so that they share the loads of the weights.
constexpr int kTogether = 4;

// kLanes channels of `kPixels` outputs in a row, whose windows have the taps of `span`. `window`
// and `weight` are at the first tap of the first of them, whether it is in the span or not.
template <int kLanes, int kPixels>
[[gnu::always_inline]] inline void ConvolvePixels(const WindowShape& s, const Span& span,
                                                  const float* window, const float* weight,
                                                  const float* bias, float* y) {
  using Float = typename Lanes<kLanes>::Float;
  const Float start = bias == nullptr ? Float{} : Load<Float>(bias);
  Float sums[kPixels];
  for (int k = 0; k < kPixels; ++k) sums[k] = start;
  const std::int64_t step = s.stride_w * s.inner;
  for (std::int64_t r = span.h; r < span.h_end; ++r) {
    for (std::int64_t c = span.w; c < span.w_end; ++c) {
      const Float factor = Load<Float>(weight + (r * s.window_w + c) * s.inner);
      const float* at = window + (r * s.in_w + c) * s.inner;
      for (int k = 0; k < kPixels; ++k) sums[k] += factor * Load<Float>(at + k * step);
    }
  }
  for (int k = 0; k < kPixels; ++k) {
    const Float sum = s.relu ? (sums[k] < Float{} ? Float{} : sums[k]) : sums[k];
    Store(y + k * s.inner, sum);
  }
}

// The outputs of a row whose windows have all their columns inside the image: [first, end).
struct Whole {
  std::int64_t first, end;
};
inline Whole WholeWindows(const WindowShape& s) {
  const std::int64_t first = (s.pad_w + s.stride_w - 1) / s.stride_w;
  const std::int64_t room = s.in_w + s.pad_w - s.window_w;
  return {first, room < 0 ? 0 : Least(s.out_w, room / s.stride_w + 1)};
}

template <int kLanes>
void ConvolveRow(const WindowShape& s, const float* x, const float* weight, const float* bias,
                 float* y, std::int64_t p) {
  const Whole whole = WholeWindows(s);
  for (std::int64_t i = 0; i < s.inner; i += kLanes) {
    const float* own_bias = bias == nullptr ? nullptr : bias + i;
    for (std::int64_t q = 0; q < s.out_w;) {
      const Span span = SpanOf(s, p, q);
      const float* window = x + Corner(s, p, q) + i;
      float* to = y + (p * s.out_w + q) * s.inner + i;
      if (q >= whole.first && q + kTogether <= whole.end) {
        ConvolvePixels<kLanes, kTogether>(s, span, window, weight + i, own_bias, to);
        q += kTogether;
      } else {
        ConvolvePixels<kLanes, 1>(s, span, window, weight + i, own_bias, to);
        ++q;
      }
    }
  }
}

// Row h of dx: for each pixel, the products of all windows over it.
template <int kLanes>
void DataRow(const WindowShape& s, const float* dy, const float* weight, float* dx,
             std::int64_t h) {
  using Float = typename Lanes<kLanes>::Float;
  for (std::int64_t w = 0; w < s.in_w; ++w) {
    for (std::int64_t i = 0; i < s.inner; i += kLanes) {
      Float sum{};
      for (std::int64_t r = (h + s.pad_h) % s.stride_h; r < s.window_h; r += s.stride_h) {
        const std::int64_t p = (h + s.pad_h - r) / s.stride_h;
        if (h + s.pad_h < r || p >= s.out_h) continue;
        for (std::int64_t c = (w + s.pad_w) % s.stride_w; c < s.window_w; c += s.stride_w) {
          const std::int64_t q = (w + s.pad_w - c) / s.stride_w;
          if (w + s.pad_w < c || q >= s.out_w) continue;
          sum += Load<Float>(weight + (r * s.window_w + c) * s.inner + i) *
                 Load<Float>(dy + (p * s.out_w + q) * s.inner + i);
        }
      }
      Store(dx + (h * s.in_w + w) * s.inner + i, sum);
    }
  }
}

// Row r of the kernel, from column c on, and row p of the outputs.
struct TapsAt {
  std::int64_t p, r, c;
};

// Adds the products of the outputs' gradients with what kTaps taps see to the sums of the taps.
template <int kLanes, int kTaps>
[[gnu::always_inline]] inline void AddTaps(const WindowShape& s, const float* x, const float* dy,
                                           float* sums, const TapsAt& at) {
  using Float = typename Lanes<kLanes>::Float;
  const float* line = x + (at.p * s.stride_h - s.pad_h + at.r) * s.in_w * s.inner;
  const float* gradients = dy + at.p * s.out_w * s.inner;
  float* const to = sums + (at.r * s.window_w + at.c) * s.inner;
  Float own[kTaps];
  for (int k = 0; k < kTaps; ++k) own[k] = Load<Float>(to + k * s.inner);
  for (std::int64_t q = 0; q < s.out_w; ++q) {
    const Float gradient = Load<Float>(gradients + q * s.inner);
    const std::int64_t first = q * s.stride_w - s.pad_w + at.c;
    if (first >= 0 && first + kTaps <= s.in_w) {
      for (int k = 0; k < kTaps; ++k) {
        own[k] += gradient * Load<Float>(line + (first + k) * s.inner);
      }
      continue;
    }
    for (int k = 0; k < kTaps; ++k) {
      if (first + k < 0 || first + k >= s.in_w) continue;
      own[k] += gradient * Load<Float>(line + (first + k) * s.inner);
    }
  }
  for (int k = 0; k < kTaps; ++k) Store(to + k * s.inner, own[k]);
}

template <int kLanes>
void WeightRow(const WindowShape& s, const float* x, const float* dy, float* sums, float* bias,
               std::int64_t p) {
  using Float = typename Lanes<kLanes>::Float;
  const Span span = SpanOf(s, p, 0);
  for (std::int64_t i = 0; i < s.inner; i += kLanes) {
    for (std::int64_t r = span.h; r < span.h_end; ++r) {
      std::int64_t c = 0;
      for (; c + 3 <= s.window_w; c += 3) {
        AddTaps<kLanes, 3>(s, x + i, dy + i, sums + i, {p, r, c});
      }
      for (; c < s.window_w; ++c) AddTaps<kLanes, 1>(s, x + i, dy + i, sums + i, {p, r, c});
    }
    Float sum = Load<Float>(bias + i);
    for (std::int64_t q = 0; q < s.out_w; ++q) {
      sum += Load<Float>(dy + (p * s.out_w + q) * s.inner + i);
    }
    Store(bias + i, sum);
  }
}

// The outputs q of a row for which tap c is inside the image: [first, end).
inline Whole InsideOf(const WindowShape& s, std::int64_t c) {
  const std::int64_t before = s.pad_w - c, room = s.in_w + s.pad_w - c;
  return {before <= 0 ? 0 : (before + s.stride_w - 1) / s.stride_w,
          room <= 0 ? 0 : Least(s.out_w, (room - 1) / s.stride_w + 1)};
}

// to[i * to_step] += factor * from[i * from_step]
inline void AddScaled(float factor, const float* __restrict from, std::int64_t from_step,
                      float* __restrict to, std::int64_t to_step, std::int64_t size) {
  if (from_step == 1 && to_step == 1) {
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) to[i] += factor * from[i];
    return;
  }
  for (std::int64_t i = 0; i < size; ++i) to[i * to_step] += factor * from[i * from_step];
}

inline float Dot(const float* a, std::int64_t a_step, const float* b, std::int64_t b_step,
                 std::int64_t size) {
  float sum = 0;
  if (a_step == 1 && b_step == 1) {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
    return sum;
  }
  for (std::int64_t i = 0; i < size; ++i) sum += a[i * a_step] * b[i * b_step];
  return sum;
}

// Calls visit(tap, first float of the tap's inputs in x, first of the outputs in y, outputs) for
// the part of each output row that each tap contributes to. Pixels of x are s.inner floats apart,
// those of y `y_step`.
template <typename Visit>
void ForEachTapOfRow(const WindowShape& s, std::int64_t y_step, const Visit& visit) {
  for (std::int64_t p = 0; p < s.out_h; ++p) {
    const Span span = SpanOf(s, p, 0);
    for (std::int64_t r = span.h; r < span.h_end; ++r) {
      for (std::int64_t c = 0; c < s.window_w; ++c) {
        const Whole inside = InsideOf(s, c);
        if (inside.first >= inside.end) continue;
        const std::int64_t h = p * s.stride_h - s.pad_h + r;
        const std::int64_t w = inside.first * s.stride_w - s.pad_w + c;
        visit(r * s.window_w + c, (h * s.in_w + w) * s.inner, (p * s.out_w + inside.first) * y_step,
              inside.end - inside.first);
      }
    }
  }
}

void Depthwise(const WindowShape& s, const float* x, const float* weight, const float* bias,
               float* y, RowRange rows) {
  WithLanes(s.inner, [&]<int kLanes>() {
    for (std::int64_t p = rows.first; p < rows.last; ++p) {
      ConvolveRow<kLanes>(s, x, weight, bias, y, p);
    }
  });
}

void DepthwiseData(const WindowShape& s, const float* dy, const float* weight, float* dx,
                   RowRange rows) {
  WithLanes(s.inner, [&]<int kLanes>() {
    for (std::int64_t h = rows.first; h < rows.last; ++h) DataRow<kLanes>(s, dy, weight, dx, h);
  });
}

void DepthwiseWeight(const WindowShape& s, const float* x, const float* dy, float* sums,
                     float* bias, RowRange rows) {
  WithLanes(s.inner, [&]<int kLanes>() {
    for (std::int64_t p = rows.first; p < rows.last; ++p) {
      WeightRow<kLanes>(s, x, dy, sums, bias, p);
    }
  });
}

void DepthwisePlane(const WindowShape& s, const float* x, const float* weight, float bias, float* y,
                    std::int64_t y_step) {
  const std::int64_t size = s.out_h * s.out_w;
  for (std::int64_t i = 0; i < size; ++i) y[i * y_step] = bias;
  ForEachTapOfRow(s, y_step,
                  [&](std::int64_t tap, std::int64_t in, std::int64_t out, std::int64_t count) {
                    AddScaled(weight[tap], x + in, s.stride_w * s.inner, y + out, y_step, count);
                  });
  if (!s.relu) return;
  for (std::int64_t i = 0; i < size; ++i) {
    y[i * y_step] = y[i * y_step] < 0 ? 0 : y[i * y_step];
  }
}

void DepthwisePlaneData(const WindowShape& s, const float* dy, std::int64_t y_step,
                        const float* weight, float* dx) {
  ForEachTapOfRow(s, y_step,
                  [&](std::int64_t tap, std::int64_t in, std::int64_t out, std::int64_t count) {
                    AddScaled(weight[tap], dy + out, y_step, dx + in, s.stride_w * s.inner, count);
                  });
}

void DepthwisePlaneWeight(const WindowShape& s, const float* x, const float* dy,
                          std::int64_t y_step, float* sums, float* bias) {
  ForEachTapOfRow(s, y_step,
                  [&](std::int64_t tap, std::int64_t in, std::int64_t out, std::int64_t count) {
                    sums[tap] += Dot(x + in, s.stride_w * s.inner, dy + out, y_step, count);
                  });
  float sum = 0;
  for (std::int64_t i = 0; i < s.out_h * s.out_w; ++i) sum += dy[i * y_step];
  *bias += sum;
}

}  // namespace

void Fill(DepthwiseKernels& kernels) {
  kernels = {
      .depthwise = Depthwise,
      .depthwise_data = DepthwiseData,
      .depthwise_weight = DepthwiseWeight,
      .depthwise_plane = DepthwisePlane,
      .depthwise_plane_data = DepthwisePlaneData,
      .depthwise_plane_weight = DepthwisePlaneWeight,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
