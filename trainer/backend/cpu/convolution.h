// Which convolutions an op is made of, oneDNN's and our own.
#pragma once

#include <dnnl.hpp>
#include <optional>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device.h"

namespace lockstep::train::cpu {

// The three passes of one convolution. Each has the order of the weight that it likes best, since a
// weight is small beside its images. The backward passes may want x and y in other orders than the
// forward pass gives them; then they are copied.
struct Convolution {
  dnnl::convolution_forward::primitive_desc forward;
  dnnl::convolution_backward_weights::primitive_desc weights;
  bool few_channels = false;  // FewChannelGradient instead of `weights`, in its orders
  std::optional<dnnl::convolution_backward_data::primitive_desc> data;
  // Winograd instead of these, in their orders.
  bool winograd_forward = false, winograd_weights = false, winograd_data = false;

  dnnl::memory::desc image() const { return forward.src_desc(); }
  dnnl::memory::desc result() const { return forward.dst_desc(); }
};

// The shapes of one convolution, as oneDNN takes them.
struct ConvolutionExtents {
  dnnl::memory::dims x, weight, bias, y, strides, pad_begin, pad_end;
};
// Throws CheckFailure as WindowsOf does.
ConvolutionExtents ExtentsOf(const Conv2dSpec& spec);

// The passes that are estimated to cost least together (cost.h), in the orders that images may
// have: primitives, copies, and reading y. On equal estimates oneDNN's own choice for the forward
// pass. Throws DeviceError if there is none, dnnl::error if oneDNN fails.
Convolution ChooseConvolution(const Device& device, const Conv2dSpec& spec,
                              const ConvolutionExtents& extents);

}  // namespace lockstep::train::cpu
