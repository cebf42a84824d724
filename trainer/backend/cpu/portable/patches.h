// The windows of a convolution over one row-major image as the columns of a matrix, so that the
// convolution is a product of matrices (Chellapilla, Puri and Simard, "High performance
// convolutional neural networks for document processing", 2006).
#pragma once

#include <cstdint>

#include "trainer/backend/window.h"

namespace lockstep::train::cpu {

// The matrix is taps x pixels: tap c,r,s of the window (row-major) and the outputs of a band of
// rows.
struct Patches {
  std::int64_t channels = 0;
  WindowAxis rows, columns;

  std::int64_t taps() const { return channels * rows.size * columns.size; }
  // The rows of output whose matrix has at most `floats`, at least one.
  std::int64_t BandRows(std::int64_t floats) const;

  // Writes the matrix of the output rows [begin, end); outside of the image x is 0.
  void Gather(const float* image, std::int64_t begin, std::int64_t end, float* matrix) const;
  // Adds each element to the float of the image that Gather() would have taken it from.
  void ScatterAdd(const float* matrix, std::int64_t begin, std::int64_t end, float* image) const;
};

}  // namespace lockstep::train::cpu
