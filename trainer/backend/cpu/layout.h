// oneDNN's memory descriptors as layouts of tensors.
#pragma once

#include <dnnl.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "trainer/core/tensor.h"

namespace lockstep::train::cpu {

class DnnlLayout final : public Layout {
 public:
  explicit DnnlLayout(dnnl::memory::desc desc) : desc_(std::move(desc)) {}
  std::size_t Bytes() const override { return desc_.get_size(); }
  std::string Fingerprint() const override;
  const dnnl::memory::desc& desc() const { return desc_; }

 private:
  dnnl::memory::desc desc_;
};

// Row-major float32.
dnnl::memory::desc DenseMemoryDesc(const Shape& shape);
// The descriptor of a tensor. Throws CheckFailure for another back end's layout.
dnnl::memory::desc MemoryDescOf(const TensorDesc& tensor);
// A tensor of `shape` ordered as `desc` says; without a layout if that is row-major.
TensorDesc TensorOf(const Shape& shape, const dnnl::memory::desc& desc);

// How this folder's own kernels see N,C,H,W in memory: rows x outer x area x inner, where channel c
// is at outer c / inner, inner c % inner. Row-major: inner 1; channels last: outer 1; else blocked,
// with zeros after the last channel. A matrix N,K is rows x K x 1 x 1.
struct ImageView {
  std::int64_t rows = 0, channels = 0, outer = 0, height = 1, width = 1, inner = 1;

  std::int64_t area() const { return height * width; }
  std::int64_t row_floats() const { return outer * area() * inner; }
  std::int64_t floats() const { return rows * row_floats(); }
};
// nullopt: the order is none of these.
std::optional<ImageView> ViewOf(const dnnl::memory::desc& desc);
// Throws CheckFailure for an order that ops of this folder do not put out.
ImageView ViewOf(const TensorDesc& tensor);
// The same order for other extents: what a pool puts out.
TensorDesc WithExtents(const TensorDesc& like, const Shape& shape);
// The order of an image for people: "nchw", "nhwc", "nChw8c", "nChw16c", "nc" of a matrix.
std::string NameOf(const TensorDesc& tensor);

}  // namespace lockstep::train::cpu
