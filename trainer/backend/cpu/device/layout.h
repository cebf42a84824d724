// The memory orders of images.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/core/tensor.h"

namespace lockstep::train::cpu {

// An image N,C,H,W in memory as our kernels see it: rows x outer x area x inner, where channel c is
// at outer c / inner, inner c % inner. Row-major has inner 1, channels-last has outer 1; otherwise
// it is blocked, with zeros after the last channel. A matrix N,K is rows x K x 1 x 1.
struct ImageView {
  std::int64_t rows = 0, channels = 0, outer = 0, height = 1, width = 1, inner = 1;

  std::int64_t area() const { return height * width; }
  std::int64_t row_floats() const { return outer * area() * inner; }
  std::int64_t floats() const { return rows * row_floats(); }
  // The offset of row n's channel c, whose pixels are `inner` floats apart. c may be a channel of
  // the padding.
  std::int64_t ChannelOffset(std::int64_t n, std::int64_t c) const {
    return n * row_floats() + c / inner * area() * inner + c % inner;
  }
};

// A build with oneDNN has the orders of memory_desc.h (layout.cc), one without has only row-major
// (portable/layout.cc). ViewOf throws CheckFailure for an order that no op of this folder produces.
ImageView ViewOf(const TensorDesc& tensor);
// Returns a tensor of another shape in the order of `like`, as a pool's output.
TensorDesc WithExtents(const TensorDesc& like, const Shape& shape);
// Returns the name of the order: "nchw", "nhwc", "nChw8c" or "nChw16c"; "nc" for a matrix.
std::string NameOf(const TensorDesc& tensor);

}  // namespace lockstep::train::cpu
