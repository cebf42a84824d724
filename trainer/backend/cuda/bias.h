// The bias and the fused relu of convolutions and dense layers, whose outputs are matrices with a
// column for each filter or unit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/backend/cuda/channel_sums.h"
#include "trainer/backend/cuda/device/device.h"
#include "trainer/core/tensor.h"

namespace lockstep::train::cuda {

// Requires: the device outlives this.
class BiasAndRelu {
 public:
  // `y`: N,C or an image with channels last; `bias`: there is one; `relu`: y = max(y, 0), where NaN
  // stays NaN.
  BiasAndRelu(const Device& device, const TensorDesc& y, bool bias, bool relu);

  // Adds the bias to y and applies the relu. NVIDIA's libraries could do it in the same pass, but
  // do not promise to keep NaN.
  void Forward(void* y, const float* bias) const;
  // Applies the relu's derivative to dy, and sets the bias's gradient to the sums of its columns.
  // scratch: ScratchBytes(). Arguments of what there is none of are null.
  void Backward(const void* y, void* dy, float* gradient, void* scratch) const;
  std::size_t ScratchBytes() const;

 private:
  const Device& device_;
  const ChannelSums sums_;
  const std::int64_t size_;
  const int type_;
  const bool has_bias_, has_relu_;
};

}  // namespace lockstep::train::cuda
