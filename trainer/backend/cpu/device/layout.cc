#include "trainer/backend/cpu/device/layout.h"

#include "base/check.h"
#include "trainer/backend/cpu/device/memory_desc.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;

std::string Describe(const memory::desc& desc) {
  std::string text =
      fmt::format("{}:{}", fmt::join(desc.get_dims(), ","), fmt::join(desc.get_strides(), ","));
  const memory::dims blocks = desc.get_inner_blks(), axes = desc.get_inner_idxs();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    text += fmt::format(":{}x{}", blocks[i], axes[i]);
  }
  return text;
}

memory::dims RowMajorStrides(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

constexpr auto kFloat = memory::data_type::f32;

memory::desc ChannelsLast(const memory::dims& dims, memory::data_type type = kFloat) {
  return {dims, type, memory::format_tag::nhwc};
}

memory::desc BlockedByChannels(const memory::dims& dims, std::int64_t inner,
                               memory::data_type type = kFloat) {
  using Tag = memory::format_tag;
  return {dims, type, inner == 16 ? Tag::nChw16c : Tag::nChw8c};
}

memory::data_type TypeOf(const TensorDesc& tensor) {
  switch (tensor.dtype) {
    case DType::kFloat32:
      return memory::data_type::f32;
    case DType::kBFloat16:
      return memory::data_type::bf16;
    case DType::kFloat16:
      return memory::data_type::f16;
    case DType::kInt32:
    case DType::kUInt8:
      break;
  }
  LOCKSTEP_CHECK(false, "cpu: tensor of shape {} is {}, expected floats", tensor.shape.ToString(),
                 DTypeName(tensor.dtype));
  return memory::data_type::undef;
}

}  // namespace

std::string DnnlLayout::Fingerprint() const {
  return Describe(desc_);
}

memory::desc DenseMemoryDesc(const Shape& shape) {
  const memory::dims& dims = shape.dims();
  return {dims, memory::data_type::f32, RowMajorStrides(dims)};
}

memory::desc MemoryDescOf(const TensorDesc& tensor) {
  const memory::data_type type = TypeOf(tensor);
  const memory::dims& dims = tensor.shape.dims();
  if (tensor.dense()) return {dims, type, RowMajorStrides(dims)};
  const auto* layout = dynamic_cast<const DnnlLayout*>(tensor.layout.get());
  LOCKSTEP_CHECK(layout != nullptr, "cpu: tensor of shape {} has another back end's layout",
                 tensor.shape.ToString());
  if (type == kFloat) return layout->desc();
  if (layout->desc() == ChannelsLast(dims)) return ChannelsLast(dims, type);
  return BlockedByChannels(dims, ViewOf({.shape = tensor.shape, .layout = tensor.layout}).inner,
                           type);
}

TensorDesc TensorOf(const Shape& shape, const memory::desc& desc) {
  if (desc == DenseMemoryDesc(shape)) return {.shape = shape};
  return {.shape = shape, .layout = std::make_shared<DnnlLayout>(desc)};
}

std::optional<ImageView> ViewOf(const memory::desc& desc) {
  const memory::dims dims = desc.get_dims();
  ImageView view{.rows = dims[0], .channels = dims[1], .outer = dims[1]};
  if (desc == DenseMemoryDesc(Shape(dims))) {
    for (std::size_t i = 2; i < dims.size(); ++i) view.width *= dims[i];
    if (dims.size() != 4) return view;
    view.height = dims[2];
    view.width = dims[3];
    return view;
  }
  if (dims.size() != 4) return std::nullopt;
  view.height = dims[2];
  view.width = dims[3];
  if (desc == ChannelsLast(dims)) {
    view.outer = 1;
    view.inner = view.channels;
    return view;
  }
  for (const std::int64_t inner : {16, 8}) {
    if (desc != BlockedByChannels(dims, inner)) continue;
    view.outer = (view.channels + inner - 1) / inner;
    view.inner = inner;
    return view;
  }
  return std::nullopt;
}

ImageView ViewOf(const TensorDesc& tensor) {
  LOCKSTEP_CHECK(tensor.shape.rank() >= 2, "cpu: tensor of shape {}, expected N,…",
                 tensor.shape.ToString());
  const std::optional<ImageView> view = ViewOf(MemoryDescOf(tensor));
  LOCKSTEP_CHECK(view.has_value(), "cpu: no kernel for layout {} of shape {}",
                 tensor.layout->Fingerprint(), tensor.shape.ToString());
  return *view;
}

TensorDesc WithExtents(const TensorDesc& like, const Shape& shape) {
  if (like.dense()) return {.shape = shape};
  if (MemoryDescOf(like) == ChannelsLast(like.shape.dims())) {
    return TensorOf(shape, ChannelsLast(shape.dims()));
  }
  return TensorOf(shape, BlockedByChannels(shape.dims(), ViewOf(like).inner));
}

std::string NameOf(const TensorDesc& tensor) {
  if (tensor.shape.rank() != 4) return "nc";
  const ImageView view = ViewOf(tensor);
  if (view.inner == 1) return "nchw";
  return view.outer == 1 && view.inner == view.channels ? "nhwc"
                                                        : fmt::format("nChw{}c", view.inner);
}

}  // namespace lockstep::train::cpu
