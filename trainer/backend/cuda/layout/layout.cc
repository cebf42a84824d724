#include "trainer/backend/cuda/layout/layout.h"

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"

namespace lockstep::train::cuda {
namespace {

class ChannelsLastLayout final : public Layout {
 public:
  explicit ChannelsLastLayout(std::int64_t elements) : elements_(elements) {}
  std::int64_t Elements() const override { return elements_; }
  std::string Fingerprint() const override { return "channels last"; }

 private:
  const std::int64_t elements_;
};

// Calls visit(row-major index, index in memory) for each element.
template <typename Visit>
void ForEachElement(const TensorDesc& tensor, const Visit& visit) {
  if (!IsChannelsLast(tensor)) {
    for (std::int64_t i = 0; i < tensor.shape.elements(); ++i) visit(i, i);
    return;
  }
  const Shape& shape = tensor.shape;
  const ImageStrides strides = StridesOf(tensor);
  std::int64_t i = 0;
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      for (std::int64_t h = 0; h < shape[2]; ++h) {
        for (std::int64_t w = 0; w < shape[3]; ++w) {
          visit(i++, n * strides.n + c * strides.c + h * strides.h + w * strides.w);
        }
      }
    }
  }
}

}  // namespace

TensorDesc ChannelsLast(TensorDesc image) {
  LOCKSTEP_CHECK(image.shape.rank() == 4, "back end cuda: found shape {}, expected N,C,H,W",
                 image.shape.ToString());
  image.layout = std::make_shared<ChannelsLastLayout>(image.shape.elements());
  return image;
}

bool IsChannelsLast(const TensorDesc& tensor) {
  if (tensor.dense()) return false;
  LOCKSTEP_CHECK(dynamic_cast<const ChannelsLastLayout*>(tensor.layout.get()) != nullptr,
                 "back end cuda: a tensor of shape {} has another back end's layout",
                 tensor.shape.ToString());
  return true;
}

ImageStrides StridesOf(const TensorDesc& tensor) {
  const Shape& shape = tensor.shape;
  LOCKSTEP_CHECK(shape.rank() == 4 || shape.rank() == 2,
                 "back end cuda: found shape {}, expected N,C,H,W or N,C", shape.ToString());
  const std::int64_t channels = shape[1];
  if (shape.rank() == 2) return {.n = channels, .c = 1, .h = channels, .w = channels};
  const std::int64_t height = shape[2], width = shape[3];
  if (IsChannelsLast(tensor)) {
    return {.n = channels * height * width, .c = 1, .h = width * channels, .w = channels};
  }
  return {.n = channels * height * width, .c = height * width, .h = width, .w = 1};
}

Planes PlanesOf(const TensorDesc& tensor) {
  const Shape& shape = tensor.shape;
  if (shape.rank() == 2) return {.outer = shape[0] * shape[1]};
  LOCKSTEP_CHECK(shape.rank() == 4, "back end cuda: found shape {}, expected N,C,H,W or N,C",
                 shape.ToString());
  if (IsChannelsLast(tensor)) {
    return {.outer = shape[0], .height = shape[2], .width = shape[3], .inner = shape[1]};
  }
  return {.outer = shape[0] * shape[1], .height = shape[2], .width = shape[3]};
}

TensorDesc LikeLayoutOf(const TensorDesc& tensor, Shape shape) {
  TensorDesc desc{.shape = std::move(shape), .dtype = tensor.dtype};
  return IsChannelsLast(tensor) ? ChannelsLast(std::move(desc)) : desc;
}

std::int64_t ElementsMovedAtOnce(DType type) {
  constexpr std::size_t kBytes = 16;
  return static_cast<std::int64_t>(kBytes / SizeOf(type));
}

std::int64_t PaddedToWhole(std::int64_t count, DType type) {
  const std::int64_t step = ElementsMovedAtOnce(type);
  return (count + step - 1) / step * step;
}

void ToRowMajor(const TensorDesc& tensor, const float* from, float* to) {
  ForEachElement(tensor, [=](std::int64_t i, std::int64_t at) { to[i] = from[at]; });
}

void FromRowMajor(const TensorDesc& tensor, const float* from, float* to) {
  ForEachElement(tensor, [=](std::int64_t i, std::int64_t at) { to[at] = from[i]; });
}

}  // namespace lockstep::train::cuda
