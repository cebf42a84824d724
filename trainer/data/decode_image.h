// Decodes JPEG and PNG images. The bytes are not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace lockstep::train {

struct Pixels {
  std::size_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> bytes;  // H,W,C
};

// An image has at most this many pixels.
inline constexpr std::size_t kMaxPixels = std::size_t{1} << 26;

// The brightness of a color by Rec. 601, as in JPEG.
inline std::uint8_t LumaOf(unsigned red, unsigned green, unsigned blue) {
  return static_cast<std::uint8_t>((77 * red + 150 * green + 29 * blue) >> 8);
}

// Decodes an image, whose first bytes say what it is, to `channels` channels: 1 (luma) or 3 (RGB).
// Alpha is dropped, and 16-bit channels lose their low bytes. A JPEG image of several scans
// (progressive) may take 256 MiB of memory for its coefficients: 44 megapixels in full color.
// Pixels that a JPEG file lacks before the marker at its end are gray. Writes to `image`, whose
// memory is reused. Unavailable: there is no memory for it now. DataLoss says what is wrong with
// the bytes, also if the file is cut short, but does not name the file. Thread-safe.
absl::Status DecodeImage(std::span<const std::uint8_t> file, int channels, Pixels& image);

// The same for one format, but memory for the pixels that lacks is std::bad_alloc. Requires:
// channels is 1 or 3.
absl::Status DecodeJpeg(std::span<const std::uint8_t> file, int channels, Pixels& image);
absl::Status DecodePng(std::span<const std::uint8_t> file, int channels, Pixels& image);

}  // namespace lockstep::train
