#include "trainer/backend/cuda/channel_sums.h"

#include <algorithm>
#include <bit>

#include "trainer/backend/cuda/layout/layout.h"

namespace lockstep::train::cuda {
namespace {

// As kMostNeighbors of kernels/element.h, where the channels allow it: see WithNeighbors.
int NeighborsOf(std::int64_t channels, bool are_inner, DType type) {
  const std::int64_t most = ElementsMovedAtOnce(type);
  return are_inner && channels % most == 0 ? static_cast<int>(most) : 1;
}

// A power of two, at most a warp.
int ColumnsOf(std::int64_t channels, bool are_inner, int neighbors) {
  constexpr std::int64_t kWarp = 32;
  if (!are_inner) return 1;
  return static_cast<int>(
      std::bit_ceil(static_cast<unsigned>(std::min(channels / neighbors, kWarp))));
}

// So that there are `blocks`, which fill a GPU, if each thread has `pixels_of_thread` or more.
std::int64_t PartsOf(std::int64_t pixels_of_column, std::int64_t pixels_of_thread,
                     std::int64_t blocks) {
  const std::int64_t most = std::max<std::int64_t>(1, pixels_of_column / pixels_of_thread);
  return std::clamp<std::int64_t>(blocks, 1, most);
}

}  // namespace

ChannelSums::ChannelSums(const TensorDesc& tensor)
    : channels_(tensor.shape[1]),
      area_(tensor.elements() / (tensor.shape[0] * channels_)),
      pixels_(tensor.shape[0] * area_),
      are_inner_(area_ == 1 || IsChannelsLast(tensor)),
      neighbors_(NeighborsOf(channels_, are_inner_, tensor.dtype)),
      columns_(ColumnsOf(channels_, are_inner_, neighbors_)),
      blocks_x_((channels_ + columns_ * neighbors_ - 1) / (columns_ * neighbors_)),
      parts_(PartsOf(PixelsOfColumn(), 8, 1024 / blocks_x_)) {}

Grid ChannelSums::GridOf(std::int64_t parts) const {
  return {.blocks_x = static_cast<unsigned>(blocks_x_),
          .blocks_y = static_cast<unsigned>(parts),
          .threads_x = Device::ThreadsFor(columns_ * pixels_)};
}

// The pixels of a block that one thread of a column would have for itself.
std::int64_t ChannelSums::PixelsOfColumn() const {
  return pixels_ / (Device::kThreads / columns_);
}

Grid ChannelSums::PartsGrid() const {
  return GridOf(parts_);
}

Grid ChannelSums::WalkGrid() const {
  return GridOf(PartsOf(PixelsOfColumn(), 4, 4096 / blocks_x_));
}

Grid ChannelSums::ChannelsGrid() const {
  const std::int64_t threads = std::min<std::int64_t>(parts_, Device::kThreads);
  return {.blocks_x = static_cast<unsigned>(channels_),
          .threads_x = std::bit_ceil(static_cast<unsigned>(threads))};
}

}  // namespace lockstep::train::cuda
