// Convolutions of 3x3 and 5x5 kernels by Winograd's method, forward and for the gradient of x,
// which is a convolution of dy with the flipped kernel. Less than half of the multiplications of
// the plain sum, for copies of the images that stay in the cache.
#pragma once

#include <cstddef>
#include <string>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/cpu/layout.h"

namespace lockstep::train::cpu {

class Winograd {
 public:
  // At most so much of a weight is transformed at a time, see Run(). 16 MB stay in the last-level
  // cache of most processors, while every batch of tiles reads them; and transforming the tiles
  // again for each block costs little beside multiplying them with so many channels.
  static constexpr std::size_t kMostWeightBytes = std::size_t{16} << 20;

  // True if the kernels can convolve with `spec`'s weight from or to images in the orders of x and
  // y: stride 1, 3x3 or 5x5, and channels of both that fill registers, not so many that those of
  // two registers exceed kMostWeightBytes (3,640 at AVX-512).
  static bool Supports(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                       const ImageView& y);
  static std::string Name(const Device& device);
  // What a pass from images like `from` to images like `to` is estimated to cost; see cost.h.
  static double Seconds(const Device& device, const Conv2dSpec& spec, const ImageView& from,
                        const ImageView& to);

  // Both require Supports(). y = act(bias + x * weight).
  static Winograd Forward(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                          const ImageView& y);
  // dx of dy.
  static Winograd BackwardData(const Device& device, const Conv2dSpec& spec, const ImageView& dy,
                               const ImageView& dx);

  std::size_t ScratchBytes() const;
  // The bytes of it that hold the transformed weight: kMostWeightBytes or less.
  std::size_t WeightBytes() const;
  // `weight` is row-major, `bias` null without one, `scratch` ScratchBytes() of memory. A large
  // weight is transformed and multiplied in blocks of channels of `to`. The bits of an image depend
  // on the instruction set alone.
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
  std::int64_t vectors_, block_vectors_;  // of channels of `to`, in all and in a block
};

// The weight's gradient by the same method. It keeps 36 sums for each element of the weight's 9 or
// 25, so it is for weights of which these stay in the cache.
class WinogradGradient {
 public:
  static bool Supports(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                       const ImageView& y);
  static double Seconds(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                        const ImageView& y);

  // Requires Supports().
  WinogradGradient(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                   const ImageView& y);

  std::size_t ScratchBytes() const;
  // From x and dy writes weight (K,C,R,S row-major) and, unless it is null, bias (K). The bits
  // depend on the number of threads and the instruction set alone.
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
