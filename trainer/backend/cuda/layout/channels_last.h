// Images in the order in which convolutions read them.
#pragma once

#include <cstdint>

#include "trainer/backend/cuda/device/device.h"
#include "trainer/core/dtype.h"

namespace lockstep::train::cuda {

// `images` of `area` pixels, of which x or y has `padded` channels last, and the other has
// `channels` of them, last too if `are_inner`. Weights K,C,R,S are K images of R*S pixels.
struct ChannelsLastOperands {
  const void* x = nullptr;
  DType from = DType::kFloat32;
  void* y = nullptr;
  DType to = DType::kFloat32;
  std::int64_t images = 0, area = 0, channels = 0, padded = 0;
  bool are_inner = false;
};
// y = x with zeros for the channels that x does not have.
void ToChannelsLast(const Device& device, const ChannelsLastOperands& operands);
// y = x without them.
void FromChannelsLast(const Device& device, const ChannelsLastOperands& operands);

}  // namespace lockstep::train::cuda
