// Places the sliding windows of convolution and pooling.
#pragma once

#include <cstdint>

#include "trainer/backend/op_spec.h"
#include "trainer/backend/window_axis.h"

namespace lockstep::train {

// As in Keras: `valid` omits windows that do not fit; `same` gives ceil(in / stride) outputs and
// puts an odd element of padding at the end. `zeros_begin` and `zeros_end`: of Edges, with kValid.
inline WindowAxis PlaceWindow(std::int64_t in, std::int64_t size, std::int64_t stride,
                              Padding padding, std::int64_t zeros_begin = 0,
                              std::int64_t zeros_end = 0) {
  WindowAxis axis{.in = in, .size = size, .stride = stride};
  if (padding == Padding::kValid) {
    const std::int64_t padded = in + zeros_begin + zeros_end;
    axis.out = padded < size ? 0 : (padded - size) / stride + 1;
    axis.pad_begin = zeros_begin;
    axis.pad_end = zeros_end;
    return axis;
  }
  axis.out = (in + stride - 1) / stride;
  const std::int64_t total = std::max<std::int64_t>(0, (axis.out - 1) * stride + size - in);
  axis.pad_begin = total / 2;
  axis.pad_end = total - axis.pad_begin;
  return axis;
}

struct Windows {
  WindowAxis rows, columns;
};
// All throw CheckFailure if x is not N,C,H,W, the window does not fit it, or the zeros at its
// edges are not as the spec says.
Windows WindowsOf(const Conv2dSpec& spec);
Windows WindowsOf(const DepthwiseConv2dSpec& spec);
Windows WindowsOf(const Pool2dSpec& spec);
// Returns y's shape. Throws CheckFailure as WindowsOf, or if depth_multiplier is below 1.
Shape ShapeOf(const DepthwiseConv2dSpec& spec);
// Returns y's shape. Throws CheckFailure if x is not N,C,H,W or an edge is negative.
Shape ShapeOf(const ZeroPadding2dSpec& spec);

}  // namespace lockstep::train
