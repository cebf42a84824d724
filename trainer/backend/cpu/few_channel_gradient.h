// The weight gradient of a convolution whose input has few channels, such as a first layer on grey
// or colour images. Without AVX-512, oneDNN's implementation of it is a plain loop or up to ten
// times slower than its other convolutions.
#pragma once

#include <cstddef>
#include <string>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/device.h"
#include "trainer/backend/cpu/device/layout.h"
#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cpu {

class FewChannelGradient {
 public:
  // With more channels oneDNN is as fast.
  static constexpr std::int64_t kMostChannels = 4;

  // True if there is a kernel for x and y in these orders.
  static bool Supports(const Device& device, const ImageView& x, const ImageView& y);

  // Returns the name of the implementation, for OpChoice.
  static std::string Name(const Device& device);

  // Requires: Supports() is true for a row-major x and `y`. Reads only the shape of spec.x.
  FewChannelGradient(const Device& device, const Conv2dSpec& spec, const ImageView& y);

  std::size_t ScratchBytes() const;
  // Computes the gradients `weight` (K,C,R,S row-major) and, unless it is null, `bias` (K) from x
  // (row-major) and dy (in the order of `y`). `scratch` has ScratchBytes(). The result's bits
  // depend only on the inputs, the number of threads and the instruction set.
  void Run(const float* x, const float* dy, float* weight, float* bias, void* scratch) const;

 private:
  // A thread's scratch holds a padded image and the thread's sums for weight and bias.
  std::int64_t padded_floats() const { return shape_.channels * shape_.padded_h * shape_.padded_w; }
  std::int64_t filters() const { return shape_.blocks * kernels_.lanes; }
  std::int64_t taps() const { return shape_.channels * shape_.kernel_h * shape_.kernel_w; }
  std::int64_t ThreadFloats() const;
  void AddImages(std::int64_t begin, std::int64_t end, const float* x, const float* dy,
                 float* scratch) const;
  void Pad(const float* image, float* padded) const;

  const Kernels& kernels_;
  int threads_;
  std::int64_t rows_, in_h_, in_w_, pad_h_, pad_w_, image_floats_, result_floats_, used_filters_;
  FewChannelShape shape_;
};

}  // namespace lockstep::train::cpu
