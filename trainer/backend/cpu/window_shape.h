// How the kernels of pools and depthwise convolutions are told where their windows lie.
#pragma once

#include <cstdint>

#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cpu {

// `inner`: of the image's view, see ImageView.
inline WindowShape ShapeOf(const Windows& windows, std::int64_t inner, bool relu) {
  const auto& [rows, columns] = windows;
  return {.in_h = rows.in,
          .in_w = columns.in,
          .out_h = rows.out,
          .out_w = columns.out,
          .inner = inner,
          .window_h = rows.size,
          .window_w = columns.size,
          .stride_h = rows.stride,
          .stride_w = columns.stride,
          .pad_h = rows.pad_begin,
          .pad_w = columns.pad_begin,
          .relu = relu};
}

}  // namespace lockstep::train::cpu
