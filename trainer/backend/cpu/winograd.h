// Convolutions of 3x3 and 5x5 kernels by Winograd's method: the forward pass, and the gradient of
// x, which is a convolution of dy with the flipped kernel. It needs less than half of the direct
// method's multiplications, at the cost of copies of the images that stay in the cache.
#pragma once

#include <cstddef>
#include <string>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/device.h"
#include "trainer/backend/cpu/device/layout.h"
#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu {

class Winograd {
 public:
  // The most bytes of a weight that are transformed at a time, see Run(). 16 MB stay in the
  // last-level cache of most processors, and every batch of tiles reads them. Transforming the
  // tiles again for each block costs little compared to multiplying them by so many channels.
  static constexpr std::size_t kMostWeightBytes = std::size_t{16} << 20;

  // True if the kernels support `spec` with images in the orders of x and y: stride 1, 3x3 or 5x5,
  // and channels that fill registers. The transformed weight for two registers of channels must not
  // exceed kMostWeightBytes, which allows 3,640 channels with AVX-512.
  static bool Supports(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                       const ImageView& y);
  static std::string Name(const Device& device);
  // The estimated cost of a pass from images like `from` to images like `to`; see cost.h.
  static double Seconds(const Device& device, const Conv2dSpec& spec, const ImageView& from,
                        const ImageView& to);

  // y = act(bias + x * weight). Requires: Supports().
  static Winograd Forward(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                          const ImageView& y);
  // dx from dy. Requires: Supports().
  static Winograd BackwardData(const Device& device, const Conv2dSpec& spec, const ImageView& dy,
                               const ImageView& dx);

  std::size_t ScratchBytes() const;
  // The part of ScratchBytes() for the transformed weight: at most kMostWeightBytes.
  std::size_t WeightBytes() const;
  // `weight` is row-major, `bias` may be null, `scratch` has ScratchBytes(). Transforms and
  // multiplies a large weight in blocks of channels of `to`. An image's bits depend only on the
  // inputs and the instruction set.
  void Run(const float* from, const float* weight, const float* bias, float* to,
           void* scratch) const;

 private:
  Winograd(const Device& device, std::int64_t images, const WinogradShape& shape,
           const WinogradWeight& weight);
  std::int64_t VectorFloats() const;
  std::int64_t ThreadFloats() const;
  WinogradBlock TransformWeight(std::int64_t first, std::int64_t last, const float* weight,
                                float* transformed) const;

  const Kernels* kernels_;
  int threads_;
  std::int64_t tiles_;
  WinogradShape shape_;
  WinogradWeight weight_;
  std::int64_t vectors_, block_vectors_;  // vectors of channels of `to`: in total, per block
};

// The weight's gradient by the same method. It keeps 36 sums for every 9 or 25 elements of the
// weight, so it is for weights whose sums stay in the cache.
class WinogradGradient {
 public:
  static bool Supports(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                       const ImageView& y);
  static double Seconds(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                        const ImageView& y);

  // Requires: Supports().
  WinogradGradient(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                   const ImageView& y);

  std::size_t ScratchBytes() const;
  // Computes the gradients `weight` (K,C,R,S row-major) and, unless null, `bias` (K) from x and dy.
  // The result's bits depend only on the inputs, the number of threads and the instruction set.
  void Run(const float* x, const float* dy, float* weight, float* bias, void* scratch) const;

 private:
  std::int64_t SumFloats() const;
  std::int64_t ThreadFloats() const;

  const Kernels* kernels_;
  int threads_;
  std::int64_t tiles_;
  WinogradShape shape_;
};

}  // namespace lockstep::train::cpu
