// oneDNN's memory descriptors as layouts of tensors.
#pragma once

#include <dnnl.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "trainer/backend/cpu/layout.h"
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
// nullopt: the order is none that our own kernels know.
std::optional<ImageView> ViewOf(const dnnl::memory::desc& desc);

}  // namespace lockstep::train::cpu
