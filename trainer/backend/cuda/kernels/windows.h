// Windows that slide over images of planes (layout.h), as those of pools and depthwise
// convolutions.
#pragma once

#include <cstdint>

#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/window_axis.h"

namespace lockstep::train::cuda::kernels {

// An element's coordinates in an image of planes (layout.h), which make up its index in memory.
struct Place {
  std::int64_t outer = 0, row = 0, column = 0, inner = 0;
};

__device__ inline Place PlaceOf(std::int64_t i, std::int64_t rows, std::int64_t columns,
                                std::int64_t inner) {
  const auto [pixels, at] = Divide(i, inner);
  const auto [lines, column] = Divide(pixels, columns);
  const auto [outer, row] = Divide(lines, rows);
  return {.outer = outer, .row = row, .column = column, .inner = at};
}

struct WindowAxes {
  WindowAxis rows, columns;
};

// Calls visit(element's number in the window, index in memory) for each element under a window, in
// order.
template <typename Visit>
__device__ void ForEachUnder(const WindowAxes& axes, const Place& place, std::int64_t inner,
                             const Visit& visit) {
  const auto& [rows, columns] = axes;
  const std::int64_t plane = place.outer * rows.in;
  for (std::int64_t r = rows.First(place.row); r < rows.Last(place.row); ++r) {
    const std::int64_t h = place.row * rows.stride - rows.pad_begin + r;
    for (std::int64_t s = columns.First(place.column); s < columns.Last(place.column); ++s) {
      const std::int64_t w = place.column * columns.stride - columns.pad_begin + s;
      visit(static_cast<int>(r * columns.size + s),
            ((plane + h) * columns.in + w) * inner + place.inner);
    }
  }
}

struct Positions {
  std::int64_t first = 0, end = 0;
};

// The windows that contain element `at` of the axis.
__device__ inline Positions WindowsOver(const WindowAxis& axis, std::int64_t at) {
  const std::int64_t last_start = at + axis.pad_begin, before_first = last_start - axis.size;
  const std::int64_t end = Divide(last_start, axis.stride).quotient + 1;
  return {.first = before_first < 0 ? 0 : Divide(before_first, axis.stride).quotient + 1,
          .end = end < axis.out ? end : axis.out};
}

// Calls visit(row p and column q of the output, its index in memory) for each window over an
// element, in order.
template <typename Visit>
__device__ void ForEachOver(const WindowAxes& axes, const Place& place, std::int64_t inner,
                            const Visit& visit) {
  const Positions rows = WindowsOver(axes.rows, place.row);
  const Positions columns = WindowsOver(axes.columns, place.column);
  for (std::int64_t p = rows.first; p < rows.end; ++p) {
    for (std::int64_t q = columns.first; q < columns.end; ++q) {
      const std::int64_t pixel = (place.outer * axes.rows.out + p) * axes.columns.out + q;
      visit(p, q, pixel * inner + place.inner);
    }
  }
}

// Calls body<kCount>(i) for each group of kCount elements that are neighbors in a plane of `inner`:
// as many as memory moves at once, or one by one.
template <typename T, typename Body>
__device__ void ForEachGroup(std::int64_t size, std::int64_t inner, const Body& body) {
  constexpr unsigned kCount = kMostNeighbors<T>;
  if (inner % kCount == 0) {
    ForEach(size / kCount, [&](std::int64_t i) { body.template operator()<kCount>(i * kCount); });
  } else {
    ForEach(size, [&](std::int64_t i) { body.template operator()<1>(i); });
  }
}

// Made of LOCKSTEP_WINDOW_PARAMETERS.
#define LOCKSTEP_WINDOW_AXES                                                              \
  const WindowAxes axes {                                                                 \
    {.in = in_h, .size = size_h, .stride = stride_h, .out = out_h, .pad_begin = pad_h}, { \
      .in = in_w, .size = size_w, .stride = stride_w, .out = out_w, .pad_begin = pad_w    \
    }                                                                                     \
  }

}  // namespace lockstep::train::cuda::kernels
