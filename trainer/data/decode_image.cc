#include "trainer/data/decode_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>

namespace lockstep::train {
namespace {

bool StartsWith(std::span<const std::uint8_t> file, std::span<const std::uint8_t> magic) {
  return file.size() >= magic.size() && std::ranges::equal(file.first(magic.size()), magic);
}

}  // namespace

absl::Status DecodeImage(std::span<const std::uint8_t> file, int channels, Pixels& image) {
  static constexpr std::array<std::uint8_t, 3> kJpeg = {0xFF, 0xD8, 0xFF};
  static constexpr std::array<std::uint8_t, 4> kPng = {0x89, 'P', 'N', 'G'};
  try {
    if (StartsWith(file, kJpeg)) return DecodeJpeg(file, channels, image);
    if (StartsWith(file, kPng)) return DecodePng(file, channels, image);
  } catch (const std::bad_alloc&) {  // the pixels: hundreds of megabytes, perhaps
    return absl::UnavailableError("no memory for the pixels of an image");
  }
  std::array<std::uint8_t, 4> start{};
  std::ranges::copy(file.first(std::min(file.size(), start.size())), start.begin());
  return absl::DataLossError(
      fmt::format("found {} bytes that start with {:02x} {:02x} {:02x} {:02x}, expected a JPEG "
                  "(ff d8 ff) or PNG (89 50 4e 47) image",
                  file.size(), start[0], start[1], start[2], start[3]));
}

}  // namespace lockstep::train
