// The positions of a sliding window along one axis of an image, for convolution and pooling.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/backend/backend.h"

namespace lockstep::train {

struct WindowAxis {
  std::int64_t in = 0, size = 0, stride = 1;
  std::int64_t out = 0;        // number of positions; below 1 if the window does not fit
  std::int64_t pad_begin = 0;  // the window at `o` covers [o * stride - pad_begin, … + size)
  std::int64_t pad_end = 0;

  // The window at `o` lies inside the image from offset First(o) to Last(o), exclusive.
  std::int64_t First(std::int64_t o) const {
    return std::max<std::int64_t>(0, pad_begin - o * stride);
  }
  std::int64_t Last(std::int64_t o) const { return std::min(size, in + pad_begin - o * stride); }
};

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
// Both throw CheckFailure if x is not N,C,H,W, the window does not fit it, or the zeros at its
// edges are not as the spec says.
Windows WindowsOf(const Conv2dSpec& spec);
Windows WindowsOf(const Pool2dSpec& spec);
// Returns y's shape. Throws CheckFailure if x is not N,C,H,W or an edge is negative.
Shape ShapeOf(const ZeroPadding2dSpec& spec);

}  // namespace lockstep::train
