// Copies channels of images between memory orders.
#pragma once

#include <cstdint>

#include "trainer/backend/cpu/device/device.h"
#include "trainer/backend/cpu/device/layout.h"

namespace lockstep::train::cpu {

// Channels of an image from `first` on.
template <typename Float>
struct Channels {
  Float* data = nullptr;
  const ImageView& view;
  std::int64_t first = 0;
};

// Copies the next `count` channels of every row. Where they reach the last channel of `to`, zeroes
// what its order adds after it. Requires: rows and area are equal; both have the channels.
void CopyChannels(const Device& device, const Channels<const float>& from,
                  const Channels<float>& to, std::int64_t count);

// Zeroes what the order adds after a row's last channel.
void ZeroPaddingChannels(const ImageView& view, float* row);

}  // namespace lockstep::train::cpu
