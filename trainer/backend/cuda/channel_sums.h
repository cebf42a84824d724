// How the sums of the channels of a tensor N,C,H,W or N,C are divided among blocks of a GPU. The
// number of blocks depends only on the tensor's shape, type and layout, so the sums have the same
// bits on every GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/backend/cuda/device/device.h"
#include "trainer/core/tensor.h"

namespace lockstep::train::cuda {

// See kernels/channels.h.
class ChannelSums {
 public:
  explicit ChannelSums(const TensorDesc& tensor);

  std::int64_t channels() const { return channels_; }
  std::int64_t area() const { return area_; }      // of an image
  std::int64_t pixels() const { return pixels_; }  // of all images
  bool are_inner() const { return are_inner_; }
  // How many threads of a block work side by side on different channels: each on one, or, if
  // are_inner(), on as many as memory moves at once where that number divides channels().
  int columns() const { return columns_; }
  std::int64_t parts() const { return parts_; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(2 * parts_ * channels_) * sizeof(double);
  }
  // The grid for the kernel that sums each part.
  Grid PartsGrid() const;
  // The grid for a kernel that visits every pixel and sums nothing: the same columns, in more
  // parts.
  Grid WalkGrid() const;
  // The grid for the kernel that adds the parts: a block for each channel.
  Grid ChannelsGrid() const;

 private:
  Grid GridOf(std::int64_t parts) const;
  std::int64_t PixelsOfColumn() const;

  std::int64_t channels_, area_, pixels_;
  bool are_inner_;
  int neighbors_, columns_;
  std::int64_t blocks_x_, parts_;
};

}  // namespace lockstep::train::cuda
