#include "trainer/backend/cuda/bias.h"

#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda {

BiasAndRelu::BiasAndRelu(const Device& device, const TensorDesc& y, bool bias, bool relu)
    : device_(device),
      sums_(y),
      size_(y.elements()),
      type_(static_cast<int>(y.dtype)),
      has_bias_(bias),
      has_relu_(relu) {}

void BiasAndRelu::Forward(void* y, const float* bias) const {
  if (!has_bias_ && !has_relu_) return;
  device_.Launch(LOCKSTEP_CUDA_KERNEL(AddBias), device_.GridFor(size_), y, type_, bias, size_,
                 sums_.channels(), has_relu_);
}

void BiasAndRelu::Backward(const void* y, void* dy, float* gradient, void* scratch) const {
  if (!has_bias_) {
    if (has_relu_) {
      device_.Launch(LOCKSTEP_CUDA_KERNEL(PassGradients), device_.GridFor(size_), y, dy, dy,
                     nullptr, type_, size_);
    }
    return;
  }
  auto* sums = static_cast<double*>(scratch);
  device_.Launch(LOCKSTEP_CUDA_KERNEL(SumMasked), sums_.PartsGrid(), has_relu_ ? y : nullptr, dy,
                 type_, sums, sums_.pixels(), sums_.channels(), sums_.columns());
  device_.Launch(LOCKSTEP_CUDA_KERNEL(WriteGradients), sums_.ChannelsGrid(), sums, sums_.parts(),
                 sums_.channels(), nullptr, gradient, nullptr, nullptr, sums_.area());
}

std::size_t BiasAndRelu::ScratchBytes() const {
  return has_bias_ ? sums_.bytes() : 0;
}

}  // namespace lockstep::train::cuda
