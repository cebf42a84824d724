// How the bytes of samples become the floats that a model reads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::train {

// y = (x - center[c]) * factor[c] in float32, where c is the element's channel. This form, and not
// x * scale + shift, because no compiler may fuse its two operations: every device gives the same
// bits, and with center 0 those of x * factor.
struct InputScaling {
  static constexpr std::size_t kMostChannels = 3;

  std::int64_t channels = 1;  // at most kMostChannels; 1 also if all channels are scaled alike
  std::int64_t plane = 1;     // the elements of a channel, which follow each other: C,H,W has H * W
  std::array<float, kMostChannels> center = {}, factor = {};  // of each channel

  // All bytes to 0 to 1.
  static InputScaling ToUnit() { return {.factor = {1.0f / 255.0f}}; }
};

// Calls visit(first, last, center, factor) for each range of the elements in [begin, end) of a
// batch that are scaled alike, in their order.
template <typename Visit>
void ForEachScaledRange(const InputScaling& scaling, std::int64_t begin, std::int64_t end,
                        const Visit& visit) {
  if (scaling.channels == 1) {
    if (begin < end) visit(begin, end, scaling.center[0], scaling.factor[0]);
    return;
  }
  while (begin < end) {
    const std::int64_t plane = begin / scaling.plane;
    const auto channel = static_cast<std::size_t>(plane % scaling.channels);
    const std::int64_t last = std::min(end, (plane + 1) * scaling.plane);
    visit(begin, last, scaling.center[channel], scaling.factor[channel]);
    begin = last;
  }
}

}  // namespace lockstep::train
