// Convolutions of images of few channels, as of a model's samples. Tensor cores multiply 8 channels
// or more at once, and most of those would be padding here. So what a window sees becomes a row of
// a matrix ("im2col"; Chellapilla, Puri and Simard, "High performance convolutional neural networks
// for document processing", 2006), and the convolution a product of it.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device.h"

namespace lockstep::train::cuda {

// True if the convolution has few channels and taps, so that the patches take at most four times
// its output's memory, and its input's gradient is not wanted.
bool IsForPatches(const Conv2dSpec& spec);

// Requires: IsForPatches, and `device` outlives the op.
std::unique_ptr<Op> MakeFewChannelConv2d(const Device& device, const Conv2dSpec& spec);

}  // namespace lockstep::train::cuda
