// Resamples images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "api/v1/training_job.h"
#include "trainer/data/decode_image.h"

namespace lockstep::train {

// The pixels of one axis that make one pixel of the result: `weights.size() / out` from
// first[i] on, whose weights sum to 1.
struct AxisTaps {
  std::size_t taps = 1;            // for each pixel of the result
  std::vector<std::size_t> first;  // out
  std::vector<float> weights;      // out,taps
};

// Pixel centers are at (i + 0.5) / extent, as in tf.image.resize of TensorFlow 2 (without its
// antialias). Bilinear: the two nearest pixels. Nearest: the one that the center falls into.
// Area: all that the new pixel covers, by the share that it covers of each.
// Requires: in >= 1 and out >= 1. All taps are within [0, in).
AxisTaps MakeTaps(std::size_t in, std::size_t out, api::Interpolation interpolation);

// Resamples `image` to height x width and writes C,H,W, rounded to the nearest byte; a copy if the
// size is the same. The result depends on nothing else. Thread-safe.
// Requires: planes.size() == image.channels * height * width, 1 to 4 channels.
void ResizeToPlanes(const Pixels& image, std::size_t height, std::size_t width,
                    api::Interpolation interpolation, std::span<std::uint8_t> planes);

}  // namespace lockstep::train
