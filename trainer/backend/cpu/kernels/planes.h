// What kernels share that slide a window over planes of height x width x inner floats.
#pragma once

#include <cstdint>

#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {

// The part of a window that lies inside the image, as taps [h, h_end) x [w, w_end).
struct Span {
  std::int64_t h, h_end, w, w_end;
};

inline std::int64_t Least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
inline std::int64_t Most(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}

inline Span SpanOf(const WindowShape& s, std::int64_t p, std::int64_t q) {
  const std::int64_t top = p * s.stride_h - s.pad_h, left = q * s.stride_w - s.pad_w;
  return {Most(0, -top), Least(s.window_h, s.in_h - top), Most(0, -left),
          Least(s.window_w, s.in_w - left)};
}

// Floats from the plane's start to the window's first tap at output p, q.
inline std::int64_t Corner(const WindowShape& s, std::int64_t p, std::int64_t q) {
  return ((p * s.stride_h - s.pad_h) * s.in_w + q * s.stride_w - s.pad_w) * s.inner;
}

// Calls `body` with the widest number of lanes that divides `inner` and fits a register. The
// compiler would split wider vectors into single floats for comparisons.
template <typename Body>
void WithLanes(std::int64_t inner, Body body) {
  if constexpr (LOCKSTEP_LANES >= 16) {
    if (inner % 16 == 0) return body.template operator()<16>();
  }
  if constexpr (LOCKSTEP_LANES >= 8) {
    if (inner % 8 == 0) return body.template operator()<8>();
  }
  if (inner % 4 == 0) return body.template operator()<4>();
  body.template operator()<1>();
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
