#include "trainer/backend/cuda/layout/channels_last.h"

#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/layout/transpose.h"

namespace lockstep::train::cuda {
namespace {

// The transposition that it is without padding; `rows`, `columns`: of x.
void Reorder(const Device& device, const ChannelsLastOperands& operands, std::int64_t rows,
             std::int64_t columns) {
  Transpose(device, {.x = operands.x,
                     .from = operands.from,
                     .y = operands.y,
                     .to = operands.to,
                     .count = operands.images,
                     .rows = operands.are_inner ? 1 : rows,
                     .columns = operands.are_inner ? rows * columns : columns});
}

}  // namespace

void ToChannelsLast(const Device& device, const ChannelsLastOperands& operands) {
  const auto& [x, from, y, to, images, area, channels, padded, are_inner] = operands;
  if (padded == channels) return Reorder(device, operands, channels, area);
  device.Launch(LOCKSTEP_CUDA_KERNEL(PadChannels), device.GridFor(images * area), x,
                static_cast<int>(from), y, static_cast<int>(to), images, area, channels, padded,
                are_inner);
}

void FromChannelsLast(const Device& device, const ChannelsLastOperands& operands) {
  const auto& [x, from, y, to, images, area, channels, padded, are_inner] = operands;
  if (padded == channels) return Reorder(device, operands, area, channels);
  device.Launch(LOCKSTEP_CUDA_KERNEL(CropChannels), device.GridFor(images * area * channels), x,
                static_cast<int>(from), y, static_cast<int>(to), images, area, channels, padded,
                are_inner);
}

}  // namespace lockstep::train::cuda
