// Pools over planes of height x width x inner floats, kLanes inner floats at a time.
#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/cpu/kernels/lanes.h"
#include "trainer/backend/cpu/kernels/planes.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

// Stores the largest of the taps of `span` and its index. NaN wins.
template <int kLanes, typename Index>
[[gnu::always_inline]] inline void MaxOf(const WindowShape& s, const Span& span, const float* x,
                                         float* y, Index* chosen) {
  using L = Lanes<kLanes>;
  using Float = typename L::Float;
  using Int = typename L::Int;
  Float best = Load<Float>(x + (span.h * s.in_w + span.w) * s.inner);
  Int tap = Int{} + static_cast<std::int32_t>(span.h * s.window_w + span.w);
  for (std::int64_t r = span.h; r < span.h_end; ++r) {
    for (std::int64_t c = span.w; c < span.w_end; ++c) {
      const Float value = Load<Float>(x + (r * s.in_w + c) * s.inner);
      const auto better = (value > best) | (value != value);
      best = better ? value : best;
      tap = better ? Int{} + static_cast<std::int32_t>(r * s.window_w + c) : tap;
    }
  }
  if (s.relu) {
    const Int none = Int{} + static_cast<std::int32_t>(s.window_h * s.window_w);
    tap = best > Float{} ? tap : none;
    best = best < Float{} ? Float{} : best;
  }
  Store(y, best);
  Store(chosen, L::template Convert<typename L::template Packed<Index>::Type>(tap));
}

template <int kLanes, typename Index>
void MaxPlane(const WindowShape& s, const float* x, float* y, Index* chosen) {
  for (std::int64_t p = 0; p < s.out_h; ++p) {
    for (std::int64_t q = 0; q < s.out_w; ++q) {
      const Span span = SpanOf(s, p, q);
      const float* window = x + Corner(s, p, q);
      const std::int64_t at = (p * s.out_w + q) * s.inner;
      for (std::int64_t i = 0; i < s.inner; i += kLanes) {
        MaxOf<kLanes>(s, span, window + i, y + at + i, chosen + at + i);
      }
    }
  }
}

// True if no input is in two windows, so that Backward can write instead of adding.
inline bool Disjoint(const WindowShape& s) {
  return s.stride_h >= s.window_h && s.stride_w >= s.window_w;
}
// True if the windows cover the plane, so that it need not be zeroed first.
inline bool Covering(const WindowShape& s) {
  return s.stride_h <= s.window_h && s.stride_w <= s.window_w &&
         (s.out_h - 1) * s.stride_h - s.pad_h + s.window_h >= s.in_h &&
         (s.out_w - 1) * s.stride_w - s.pad_w + s.window_w >= s.in_w;
}

template <int kLanes, bool kAdd, typename Index>
void MaxPlaneBackward(const WindowShape& s, const float* dy, const Index* chosen, float* dx) {
  using L = Lanes<kLanes>;
  using Float = typename L::Float;
  using Int = typename L::Int;
  using Packed = typename L::template Packed<Index>::Type;
  for (std::int64_t p = 0; p < s.out_h; ++p) {
    for (std::int64_t q = 0; q < s.out_w; ++q) {
      const Span span = SpanOf(s, p, q);
      float* window = dx + Corner(s, p, q);
      const std::int64_t at = (p * s.out_w + q) * s.inner;
      for (std::int64_t i = 0; i < s.inner; i += kLanes) {
        const Float gradient = Load<Float>(dy + at + i);
        const Int tap = L::template Convert<Int>(Load<Packed>(chosen + at + i));
        for (std::int64_t r = span.h; r < span.h_end; ++r) {
          for (std::int64_t c = span.w; c < span.w_end; ++c) {
            float* target = window + (r * s.in_w + c) * s.inner + i;
            const Int here = Int{} + static_cast<std::int32_t>(r * s.window_w + c);
            const Float share = tap == here ? gradient : Float{};
            Store(target, kAdd ? Load<Float>(target) + share : share);
          }
        }
      }
    }
  }
}

// The most common window.
inline bool IsTwoByTwo(const WindowShape& s) {
  return s.window_h == 2 && s.window_w == 2 && s.stride_h == 2 && s.stride_w == 2 && s.pad_h == 0 &&
         s.pad_w == 0 && s.in_h >= 2 * s.out_h && s.in_w >= 2 * s.out_w;
}

// The forward pass for 2x2 windows known to the compiler: four loads, two stores.
template <int kLanes, typename Index>
void MaxPlane2x2(const WindowShape& s, const float* x, float* y, Index* chosen) {
  const WindowShape known{.in_h = s.in_h,
                          .in_w = s.in_w,
                          .out_h = s.out_h,
                          .out_w = s.out_w,
                          .inner = s.inner,
                          .window_h = 2,
                          .window_w = 2,
                          .stride_h = 2,
                          .stride_w = 2,
                          .pad_h = 0,
                          .pad_w = 0,
                          .relu = s.relu};
  const Span whole{0, 2, 0, 2};
  for (std::int64_t p = 0; p < s.out_h; ++p) {
    for (std::int64_t q = 0; q < s.out_w; ++q) {
      const float* window = x + (2 * p * s.in_w + 2 * q) * s.inner;
      const std::int64_t at = (p * s.out_w + q) * s.inner;
      for (std::int64_t i = 0; i < s.inner; i += kLanes) {
        MaxOf<kLanes>(known, whole, window + i, y + at + i, chosen + at + i);
      }
    }
  }
}

template <int kLanes, typename Index>
void MaxPlane2x2Backward(const WindowShape& s, const float* dy, const Index* chosen, float* dx) {
  using L = Lanes<kLanes>;
  using Float = typename L::Float;
  using Int = typename L::Int;
  using Packed = typename L::template Packed<Index>::Type;
  const std::int64_t right = s.inner, below = s.in_w * s.inner;
  for (std::int64_t p = 0; p < s.out_h; ++p) {
    float* target = dx + 2 * p * below;
    for (std::int64_t q = 0; q < s.out_w; ++q, target += right) {
      for (std::int64_t i = 0; i < s.inner; i += kLanes) {
        const auto gradient = Load<Float>(dy);
        const auto tap = L::template Convert<Int>(Load<Packed>(chosen));
        Store(target, tap == Int{} ? gradient : Float{});
        Store(target + right, tap == Int{} + 1 ? gradient : Float{});
        Store(target + below, tap == Int{} + 2 ? gradient : Float{});
        Store(target + below + right, tap == Int{} + 3 ? gradient : Float{});
        target += kLanes;
        dy += kLanes;
        chosen += kLanes;
      }
    }
  }
}

inline void Zero(float* data, std::int64_t size) {
  __builtin_memset(data, 0, static_cast<unsigned long>(size) * sizeof(float));
}

template <int kLanes>
void AveragePlane(const WindowShape& s, const float* x, float* y) {
  using Float = typename Lanes<kLanes>::Float;
  for (std::int64_t p = 0; p < s.out_h; ++p) {
    for (std::int64_t q = 0; q < s.out_w; ++q) {
      const Span span = SpanOf(s, p, q);
      const float* window = x + Corner(s, p, q);
      const float area = static_cast<float>((span.h_end - span.h) * (span.w_end - span.w));
      for (std::int64_t i = 0; i < s.inner; i += kLanes) {
        Float sum{};
        for (std::int64_t r = span.h; r < span.h_end; ++r) {
          for (std::int64_t c = span.w; c < span.w_end; ++c) {
            sum += Load<Float>(window + (r * s.in_w + c) * s.inner + i);
          }
        }
        Store(y + (p * s.out_w + q) * s.inner + i, static_cast<Float>(sum / area));
      }
    }
  }
}

template <int kLanes>
void AveragePlaneBackward(const WindowShape& s, const float* dy, float* dx) {
  using Float = typename Lanes<kLanes>::Float;
  for (std::int64_t p = 0; p < s.out_h; ++p) {
    for (std::int64_t q = 0; q < s.out_w; ++q) {
      const Span span = SpanOf(s, p, q);
      float* window = dx + Corner(s, p, q);
      const float area = static_cast<float>((span.h_end - span.h) * (span.w_end - span.w));
      for (std::int64_t i = 0; i < s.inner; i += kLanes) {
        const Float share = Load<Float>(dy + (p * s.out_w + q) * s.inner + i) / area;
        for (std::int64_t r = span.h; r < span.h_end; ++r) {
          for (std::int64_t c = span.w; c < span.w_end; ++c) {
            float* target = window + (r * s.in_w + c) * s.inner + i;
            Store(target, static_cast<Float>(Load<Float>(target) + share));
          }
        }
      }
    }
  }
}

std::int64_t InFloats(const WindowShape& s) {
  return s.in_h * s.in_w * s.inner;
}
std::int64_t OutFloats(const WindowShape& s) {
  return s.out_h * s.out_w * s.inner;
}

template <typename Index>
void MaxPool(const WindowShape& s, const float* x, float* y, Index* chosen, std::int64_t planes) {
  const std::int64_t in = InFloats(s), out = OutFloats(s);
  WithLanes(s.inner, [&]<int kLanes>() {
    for (std::int64_t i = 0; i < planes; ++i) {
      if (IsTwoByTwo(s)) {
        MaxPlane2x2<kLanes>(s, x + i * in, y + i * out, chosen + i * out);
      } else {
        MaxPlane<kLanes>(s, x + i * in, y + i * out, chosen + i * out);
      }
    }
  });
}

template <typename Index>
void MaxPoolBackward(const WindowShape& s, const float* dy, const Index* chosen, float* dx,
                     std::int64_t planes) {
  const std::int64_t in = InFloats(s), out = OutFloats(s);
  if (!Disjoint(s) || !Covering(s)) Zero(dx, planes * in);
  WithLanes(s.inner, [&]<int kLanes>() {
    for (std::int64_t i = 0; i < planes; ++i) {
      if (IsTwoByTwo(s)) {
        MaxPlane2x2Backward<kLanes>(s, dy + i * out, chosen + i * out, dx + i * in);
      } else if (Disjoint(s)) {
        MaxPlaneBackward<kLanes, false>(s, dy + i * out, chosen + i * out, dx + i * in);
      } else {
        MaxPlaneBackward<kLanes, true>(s, dy + i * out, chosen + i * out, dx + i * in);
      }
    }
  });
}

void AveragePool(const WindowShape& s, const float* x, float* y, std::int64_t planes) {
  WithLanes(s.inner, [&]<int kLanes>() {
    for (std::int64_t i = 0; i < planes; ++i) {
      AveragePlane<kLanes>(s, x + i * InFloats(s), y + i * OutFloats(s));
    }
  });
}

void AveragePoolBackward(const WindowShape& s, const float* dy, float* dx, std::int64_t planes) {
  Zero(dx, planes * InFloats(s));
  WithLanes(s.inner, [&]<int kLanes>() {
    for (std::int64_t i = 0; i < planes; ++i) {
      AveragePlaneBackward<kLanes>(s, dy + i * OutFloats(s), dx + i * InFloats(s));
    }
  });
}

}  // namespace

void Fill(PoolKernels& kernels) {
  kernels = {
      .max_pool = MaxPool<std::uint8_t>,
      .max_pool_backward = MaxPoolBackward<std::uint8_t>,
      .max_pool_wide = MaxPool<std::uint32_t>,
      .max_pool_wide_backward = MaxPoolBackward<std::uint32_t>,
      .average_pool = AveragePool,
      .average_pool_backward = AveragePoolBackward,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
