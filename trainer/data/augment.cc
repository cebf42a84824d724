#include "trainer/data/augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

// Maps a word to [0, count) by multiplication; the numbers' chances differ by less than
// count / 2^32 of each.
std::int64_t Below(std::uint32_t word, std::int64_t count) {
  return static_cast<std::int64_t>((std::uint64_t{word} * static_cast<std::uint64_t>(count)) >> 32);
}

// Moves one channel in place.
void MovePlane(std::span<std::uint8_t> plane, std::int64_t height, std::int64_t width,
               std::int64_t down, std::int64_t right) {
  const auto row = [&](std::int64_t y) {
    return plane.subspan(static_cast<std::size_t>(y * width), static_cast<std::size_t>(width));
  };
  const std::int64_t kept = std::max<std::int64_t>(0, width - std::abs(right));
  const std::int64_t from = right < 0 ? width - kept : 0, to = right < 0 ? 0 : width - kept;
  for (std::int64_t i = 0; i < height; ++i) {
    const std::int64_t y = down > 0 ? height - 1 - i : i;  // a row is read before it is overwritten
    const std::span<std::uint8_t> target = row(y);
    const bool has_source = y - down >= 0 && y - down < height;
    if (has_source && kept > 0) {
      const auto source =
          row(y - down).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(kept));
      std::memmove(target.data() + to, source.data(), source.size());
    }
    const std::int64_t begin = has_source ? to : 0, end = has_source ? to + kept : 0;
    std::fill(target.begin(), target.begin() + begin, std::uint8_t{0});
    std::fill(target.begin() + end, target.end(), std::uint8_t{0});
  }
}

absl::Status CheckImages(const char* field, const Shape& shape, DType element) {
  if (shape.rank() == 3 && element == DType::kUInt8) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("spec.training.dataset.{}: found samples of {} {}, expected images of bytes",
                  field, DTypeName(element), shape.ToString()));
}

void FlipPlane(std::span<std::uint8_t> plane, std::int64_t width) {
  for (auto row = plane.begin(); row != plane.end(); row += width) std::reverse(row, row + width);
}

void BlackenSquare(std::span<std::uint8_t> plane, std::int64_t height, std::int64_t width,
                   const Augmentation& change) {
  const std::int64_t left = std::max<std::int64_t>(0, change.square_left);
  const std::int64_t right = std::min(width, change.square_left + change.square_size);
  const std::int64_t bottom = std::min(height, change.square_top + change.square_size);
  for (std::int64_t y = std::max<std::int64_t>(0, change.square_top); y < bottom; ++y) {
    const auto row = plane.begin() + y * width;
    std::fill(row + left, row + std::max(left, right), std::uint8_t{0});
  }
}

}  // namespace

Augmentation DrawAugmentation(const api::AugmentSpec& spec, const Shape& shape, std::uint64_t seed,
                              std::uint64_t epoch, std::int64_t position) {
  const std::uint64_t key = DeriveKey(seed, epoch);
  // Each change has numbers of its own, so that it is the same with and without the others.
  const PhiloxBlock words = Philox(key, static_cast<std::uint64_t>(position), 0);
  const PhiloxBlock more_words = Philox(key, static_cast<std::uint64_t>(position), 1);
  Augmentation change;
  change.flip = spec.random_flip == api::RandomFlip::kHorizontal && (words[0] >> 31) != 0;
  if (spec.random_crop) {
    const std::int64_t padding = spec.random_crop->padding;
    change.down = Below(words[1], 2 * padding + 1) - padding;
    change.right = Below(words[2], 2 * padding + 1) - padding;
  }
  if (spec.cutout) {
    change.square_size = spec.cutout->size;
    change.square_top = Below(more_words[0], shape[1]) - change.square_size / 2;
    change.square_left = Below(more_words[1], shape[2]) - change.square_size / 2;
  }
  return change;
}

void Augment(const Augmentation& change, const Shape& shape, std::span<std::uint8_t> image) {
  const std::int64_t height = shape[1], width = shape[2];
  const auto plane_bytes = static_cast<std::size_t>(height * width);
  for (std::size_t begin = 0; begin < image.size(); begin += plane_bytes) {
    const std::span<std::uint8_t> plane = image.subspan(begin, plane_bytes);
    if (change.down != 0 || change.right != 0) {
      MovePlane(plane, height, width, change.down, change.right);
    }
    if (change.flip) FlipPlane(plane, width);
    if (change.square_size > 0) BlackenSquare(plane, height, width, change);
  }
}

absl::Status CheckAugment(const api::AugmentSpec& spec, const Shape& shape, DType element) {
  LOCKSTEP_RETURN_IF_ERROR(CheckImages("augment", shape, element));
  const std::int64_t side = std::min(shape[1], shape[2]);
  if (spec.random_crop && spec.random_crop->padding >= side) {
    return absl::InvalidArgumentError(
        fmt::format("spec.training.dataset.augment.randomCrop.padding: found {} for images of {}x{}"
                    " pixels, expected less than the shorter side",
                    spec.random_crop->padding, shape[1], shape[2]));
  }
  if (spec.cutout && spec.cutout->size > side) {
    return absl::InvalidArgumentError(
        fmt::format("spec.training.dataset.augment.cutout.size: found {} for images of {}x{} "
                    "pixels, expected at most the shorter side",
                    spec.cutout->size, shape[1], shape[2]));
  }
  return absl::OkStatus();
}

absl::Status CheckNormalize(const api::NormalizeSpec& spec, const Shape& shape, DType element) {
  LOCKSTEP_RETURN_IF_ERROR(CheckImages("normalize", shape, element));
  for (const auto& [field, numbers] :
       {std::pair("mean", &spec.mean), std::pair("std", &spec.std)}) {
    if (std::ssize(*numbers) != shape[0]) {
      return absl::InvalidArgumentError(fmt::format(
          "spec.training.dataset.normalize.{}: found {} numbers for images of {} channels, "
          "expected one for each channel",
          field, numbers->size(), shape[0]));
    }
    // What the pixels are multiplied by is 1 / std, in float32.
    constexpr double kLeast = 1e-30, kMost = 1e30;
    const bool divides = field == std::string_view("std");
    for (const double number : *numbers) {
      if (std::abs(number) <= kMost && (!divides || number >= kLeast)) continue;
      return absl::InvalidArgumentError(
          fmt::format("spec.training.dataset.normalize.{}: found {}, expected {:.0e} to {:.0e}",
                      field, number, divides ? kLeast : -kMost, kMost));
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::train
