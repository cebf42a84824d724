// oneDNN's memory descriptors as layouts of tensors.
#pragma once

#include <dnnl.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "trainer/backend/cpu/device/layout.h"
#include "trainer/core/tensor.h"

namespace lockstep::train::cpu {

class DnnlLayout final : public Layout {
 public:
  // The order of `desc`, which is of float32.
  explicit DnnlLayout(dnnl::memory::desc desc) : desc_(std::move(desc)) {}
  std::int64_t Elements() const override {
    return static_cast<std::int64_t>(desc_.get_size() / sizeof(float));
  }
  std::string Fingerprint() const override;
  const dnnl::memory::desc& desc() const { return desc_; }

 private:
  dnnl::memory::desc desc_;
};

// Row-major float32.
dnnl::memory::desc DenseMemoryDesc(const Shape& shape);
// Returns a tensor's descriptor. Throws CheckFailure for another backend's layout, or if the tensor
// is not of a floating-point type.
dnnl::memory::desc MemoryDescOf(const TensorDesc& tensor);
// Returns a tensor of `shape` in the order of `desc`; without a layout if that is row-major.
TensorDesc TensorOf(const Shape& shape, const dnnl::memory::desc& desc);
// Returns nullopt if our kernels do not support the order.
std::optional<ImageView> ViewOf(const dnnl::memory::desc& desc);

}  // namespace lockstep::train::cpu
