// How images lie in a GPU's memory: dense (N,C,H,W), or channels last, as tensor cores want them.
#pragma once

#include <cstdint>

#include "trainer/core/dtype.h"
#include "trainer/core/tensor.h"

namespace lockstep::train::cuda {

// `image`, of shape N,C,H,W, with its channels last.
TensorDesc ChannelsLast(TensorDesc image);
// Requires: `tensor` is dense or of this back end.
bool IsChannelsLast(const TensorDesc& tensor);

// The elements from one index to the next along each axis of an N,C,H,W image. A matrix N,C has
// H = W = 1.
struct ImageStrides {
  std::int64_t n = 0, c = 0, h = 0, w = 0;
};
ImageStrides StridesOf(const TensorDesc& tensor);

// A tensor N,C,H,W or N,C as memory holds it, whatever its layout: `outer` planes of height x width
// pixels, of `inner` elements each. Dense: N * C and 1. Channels last: N and C.
struct Planes {
  std::int64_t outer = 0, height = 1, width = 1, inner = 1;
};
Planes PlanesOf(const TensorDesc& tensor);

// A tensor of `shape` in the layout and type of `tensor`.
TensorDesc LikeLayoutOf(const TensorDesc& tensor, Shape shape);

// How many elements fit in 16 bytes. A thread moves that many at once (kernels/element.h), and
// tensor cores need a multiple of it.
std::int64_t ElementsMovedAtOnce(DType type);
// `count`, rounded up to a multiple of that.
std::int64_t PaddedToWhole(std::int64_t count, DType type);

// Between a tensor's order in memory and dense row-major order, both in host memory.
void ToRowMajor(const TensorDesc& tensor, const float* from, float* to);
void FromRowMajor(const TensorDesc& tensor, const float* from, float* to);

}  // namespace lockstep::train::cuda
