// Reorders an image that a file holds pixel by pixel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/core/shape.h"

namespace lockstep::train {

// Copies `pixels` (H,W,C) to `planes` (C,H,W). `shape` is that of `planes`; an element has
// `element_bytes`. Requires: both have shape.elements() * element_bytes bytes and do not overlap.
void ToChannelsFirst(std::span<const std::uint8_t> pixels, const Shape& shape,
                     std::size_t element_bytes, std::span<std::uint8_t> planes);

}  // namespace lockstep::train
