#include "trainer/backend/cuda/channel_sums.h"

#include <algorithm>
#include <bit>

#include "trainer/backend/cuda/layout.h"

namespace lockstep::train::cuda {
namespace {

constexpr std::int64_t kChannelsOfBlock = 32;  // channels of a block, if they are neighbors

std::int64_t BlocksOf(std::int64_t channels, std::int64_t columns) {
  return (channels + columns - 1) / columns;
}

// So many that they fill a GPU, if each of a block's threads has several pixels to add.
std::int64_t PartsOf(std::int64_t pixels, std::int64_t columns, std::int64_t blocks) {
  constexpr std::int64_t kBlocks = 512, kPixelsPerThread = 8;
  const std::int64_t lanes = Device::kThreads / columns;
  const std::int64_t most = std::max<std::int64_t>(1, pixels / (lanes * kPixelsPerThread));
  return std::clamp<std::int64_t>(kBlocks / blocks, 1, most);
}

}  // namespace

ChannelSums::ChannelSums(const TensorDesc& tensor)
    : channels_(tensor.shape[1]),
      area_(tensor.elements() / (tensor.shape[0] * channels_)),
      pixels_(tensor.shape[0] * area_),
      are_inner_(area_ == 1 || IsChannelsLast(tensor)),
      columns_(are_inner_ ? kChannelsOfBlock : 1),
      parts_(PartsOf(pixels_, columns_, BlocksOf(channels_, columns_))) {}

Grid ChannelSums::PartsGrid() const {
  return {.blocks_x = static_cast<unsigned>(BlocksOf(channels_, columns_)),
          .blocks_y = static_cast<unsigned>(parts_),
          .threads_x = Device::ThreadsFor(columns_ * pixels_)};
}

Grid ChannelSums::ChannelsGrid() const {
  const std::int64_t threads = std::min<std::int64_t>(parts_, Device::kThreads);
  return {.blocks_x = static_cast<unsigned>(channels_),
          .threads_x = std::bit_ceil(static_cast<unsigned>(threads))};
}

}  // namespace lockstep::train::cuda
