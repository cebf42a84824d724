// Chooses the implementations of a convolution's passes: oneDNN's or our own.
#pragma once

#include <dnnl.hpp>
#include <optional>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/device.h"

namespace lockstep::train::cpu {

// The three passes of one convolution. Each uses its preferred order of the weight, which is small
// compared to the images. If a backward pass needs x or y in another order than the forward pass,
// they are copied.
struct Convolution {
  dnnl::convolution_forward::primitive_desc forward;
  dnnl::convolution_backward_weights::primitive_desc weights;
  bool few_channels = false;  // use FewChannelGradient instead of `weights`, in the same orders
  std::optional<dnnl::convolution_backward_data::primitive_desc> data;
  // Use Winograd instead of these passes, in the same orders.
  bool winograd_forward = false, winograd_weights = false, winograd_data = false;

  dnnl::memory::desc image() const { return forward.src_desc(); }
  dnnl::memory::desc result() const { return forward.dst_desc(); }
};

// The shapes of one convolution in oneDNN's form.
struct ConvolutionExtents {
  dnnl::memory::dims x, weight, bias, y, strides, pad_begin, pad_end;
};
// Throws CheckFailure as WindowsOf does.
ConvolutionExtents ExtentsOf(const Conv2dSpec& spec);

// oneDNN 3.2 has implementations of these passes that give wrong numbers in some shapes. Each goes
// on to the first that does not; returns false if there is none.
bool SkipBroken(dnnl::convolution_forward::primitive_desc& forward,
                const ConvolutionExtents& extents);
bool SkipBroken(dnnl::convolution_backward_weights::primitive_desc& weights,
                const ConvolutionExtents& extents);

// Returns the passes with the lowest estimated total cost (cost.h) over all orders of the images:
// primitives, copies, and reading y. On a tie, prefers oneDNN's own choice for the forward pass.
// Throws DeviceError if oneDNN has no implementation, dnnl::error if it fails.
Convolution ChooseConvolution(const Device& device, const Conv2dSpec& spec,
                              const ConvolutionExtents& extents);

}  // namespace lockstep::train::cpu
