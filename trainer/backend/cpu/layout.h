// In which order the floats of an image lie.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/core/tensor.h"

namespace lockstep::train::cpu {

// How this folder's own kernels see N,C,H,W in memory: rows x outer x area x inner, where channel c
// is at outer c / inner, inner c % inner. Row-major: inner 1; channels last: outer 1; else blocked,
// with zeros after the last channel. A matrix N,K is rows x K x 1 x 1.
struct ImageView {
  std::int64_t rows = 0, channels = 0, outer = 0, height = 1, width = 1, inner = 1;

  std::int64_t area() const { return height * width; }
  std::int64_t row_floats() const { return outer * area() * inner; }
  std::int64_t floats() const { return rows * row_floats(); }
};

// A build with oneDNN has the orders of memory_desc.h (layout.cc), one without only row-major
// (portable/layout.cc). Throws CheckFailure for an order that ops of this folder do not put out.
ImageView ViewOf(const TensorDesc& tensor);
// The same order for other extents: what a pool puts out.
TensorDesc WithExtents(const TensorDesc& like, const Shape& shape);
// The order of an image for people: "nchw", "nhwc", "nChw8c", "nChw16c", "nc" of a matrix.
std::string NameOf(const TensorDesc& tensor);

}  // namespace lockstep::train::cpu
