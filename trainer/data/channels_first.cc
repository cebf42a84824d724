#include "trainer/data/channels_first.h"

#include <cstring>

#include "base/check.h"

namespace lockstep::train {
namespace {

// The size is a constant, so that a copy of one element is one instruction.
template <std::size_t kBytes>
void Reorder(const std::uint8_t* from, std::size_t channels, std::size_t area, std::uint8_t* to) {
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t pixel = 0; pixel < area; ++pixel) {
      std::memcpy(to + (channel * area + pixel) * kBytes,
                  from + (pixel * channels + channel) * kBytes, kBytes);
    }
  }
}

}  // namespace

void ToChannelsFirst(std::span<const std::uint8_t> pixels, const Shape& shape,
                     std::size_t element_bytes, std::span<std::uint8_t> planes) {
  LOCKSTEP_CHECK(shape.rank() == 3 && pixels.size() == planes.size() &&
                     pixels.size() == static_cast<std::size_t>(shape.elements()) * element_bytes,
                 "{} bytes to {} bytes of {}", pixels.size(), planes.size(), shape.ToString());
  const auto channels = static_cast<std::size_t>(shape[0]);
  const auto area = static_cast<std::size_t>(shape[1] * shape[2]);
  if (channels == 1) {
    std::memcpy(planes.data(), pixels.data(), pixels.size());
  } else if (element_bytes == 1) {
    Reorder<1>(pixels.data(), channels, area, planes.data());
  } else {
    LOCKSTEP_CHECK(element_bytes == 4, "elements of {} bytes", element_bytes);
    Reorder<4>(pixels.data(), channels, area, planes.data());
  }
}

}  // namespace lockstep::train
