// im2col: the windows of a convolution over one row-major image as the columns of a matrix, so that
// the convolution is a matrix product (Chellapilla, Puri and Simard, "High performance
// convolutional neural networks for document processing", 2006).
#pragma once

#include <cstdint>

#include "trainer/backend/window.h"

namespace lockstep::train::cpu {

// The matrix is taps x pixels: the window's taps c,r,s in row-major order, and a band's outputs.
struct Patches {
  std::int64_t channels = 0;
  WindowAxis rows, columns;

  std::int64_t taps() const { return channels * rows.size * columns.size; }
  // The number of output rows, at least 1, whose matrix has at most `floats`.
  std::int64_t BandRows(std::int64_t floats) const;

  // Writes the matrix of the output rows [begin, end). Outside the image, x is 0.
  void Gather(const float* image, std::int64_t begin, std::int64_t end, float* matrix) const;
  // Adds each element to the float of the image from which Gather() would read it.
  void ScatterAdd(const float* matrix, std::int64_t begin, std::int64_t end, float* image) const;
};

}  // namespace lockstep::train::cpu
