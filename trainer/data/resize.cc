#include "trainer/data/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "trainer/core/shape.h"
#include "trainer/data/channels_first.h"

namespace lockstep::train {
namespace {

// The channels of a pixel are computed together; lanes behind the last channel are not used.
constexpr std::size_t kLanes = 4;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using WholeLanes = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

void AddBilinear(double center, std::size_t in, std::size_t i, AxisTaps& axis) {
  const double position = std::clamp(center - 0.5, 0.0, static_cast<double>(in - 1));
  const auto low = std::min(static_cast<std::size_t>(position), in - axis.taps);
  const double share = position - static_cast<double>(low);
  axis.first[i] = low;
  axis.weights[i * axis.taps] = static_cast<float>(1 - share);
  if (axis.taps > 1) axis.weights[i * axis.taps + 1] = static_cast<float>(share);
}

// The new pixel covers [begin, begin + scale).
void AddArea(double begin, double scale, std::size_t in, std::size_t i, AxisTaps& axis) {
  const auto low = std::min(static_cast<std::size_t>(begin), in - axis.taps);
  double sum = 0;
  for (std::size_t tap = 0; tap < axis.taps; ++tap) {
    const auto pixel = static_cast<double>(low + tap);
    const double covered =
        std::max(0.0, std::min(begin + scale, pixel + 1) - std::max(begin, pixel));
    axis.weights[i * axis.taps + tap] = static_cast<float>(covered);
    sum += covered;
  }
  axis.first[i] = low;
  for (std::size_t tap = 0; tap < axis.taps; ++tap) {
    float& weight = axis.weights[i * axis.taps + tap];
    weight = static_cast<float>(static_cast<double>(weight) / sum);
  }
}

// Makes `row` (W,C) of the result's height: the weighted sum of the image's rows.
void MixRows(const Pixels& image, const AxisTaps& axis, std::size_t y, std::span<float> row) {
  std::ranges::fill(row, 0.0f);
  for (std::size_t tap = 0; tap < axis.taps; ++tap) {
    const float weight = axis.weights[y * axis.taps + tap];
    if (weight == 0) continue;
    const std::uint8_t* from = image.bytes.data() + (axis.first[y] + tap) * row.size();
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += weight * static_cast<float>(from[i]);
  }
}

// Writes one row of each plane. `area` is that of a plane. Reads kLanes floats from each pixel on.
template <std::size_t kChannels>
void MixColumns(std::span<const float> row, const AxisTaps& axis, std::size_t area,
                std::uint8_t* to) {
  for (std::size_t x = 0; x < axis.first.size(); ++x) {
    const float* weights = axis.weights.data() + x * axis.taps;
    const float* from = row.data() + axis.first[x] * kChannels;
    Lanes sum{};
    for (std::size_t tap = 0; tap < axis.taps; ++tap) {
      Lanes pixel;
      std::memcpy(&pixel, from + tap * kChannels, sizeof pixel);
      sum += weights[tap] * pixel;
    }
    sum += 0.5f;
    sum = sum < 0.0f ? Lanes{} : sum;
    sum = sum > 255.0f ? Lanes{} + 255.0f : sum;
    const auto bytes = __builtin_convertvector(sum, WholeLanes);
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      to[channel * area + x] = static_cast<std::uint8_t>(bytes[channel]);
    }
  }
}

// `channels`: as many as an image has, at most kLanes.
auto MixColumnsOf(std::size_t channels) {
  constexpr std::array kByChannels = {&MixColumns<1>, &MixColumns<2>, &MixColumns<3>,
                                      &MixColumns<4>};
  static_assert(kByChannels.size() == kLanes);
  return kByChannels.at(channels - 1);
}

}  // namespace

AxisTaps MakeTaps(std::size_t in, std::size_t out, api::Interpolation interpolation) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  AxisTaps axis;
  if (interpolation == api::Interpolation::kBilinear) axis.taps = std::min<std::size_t>(in, 2);
  if (interpolation == api::Interpolation::kArea) {
    axis.taps = std::min(in, static_cast<std::size_t>(std::ceil(scale)) + 1);
  }
  axis.first.resize(out);
  axis.weights.resize(out * axis.taps);
  for (std::size_t i = 0; i < out; ++i) {
    const double begin = static_cast<double>(i) * scale;
    switch (interpolation) {
      case api::Interpolation::kBilinear:
        AddBilinear(begin + scale / 2, in, i, axis);
        break;
      case api::Interpolation::kNearest:
        axis.first[i] = std::min(static_cast<std::size_t>(begin + scale / 2), in - 1);
        axis.weights[i] = 1;
        break;
      case api::Interpolation::kArea:
        AddArea(begin, scale, in, i, axis);
        break;
    }
  }
  return axis;
}

void ResizeToPlanes(const Pixels& image, std::size_t height, std::size_t width,
                    api::Interpolation interpolation, std::span<std::uint8_t> planes) {
  const std::size_t area = height * width;
  LOCKSTEP_CHECK(image.channels >= 1 && image.channels <= kLanes, "{} channels, expected 1 to {}",
                 image.channels, kLanes);
  LOCKSTEP_CHECK(planes.size() == image.channels * area, "room for {} bytes, expected {}",
                 planes.size(), image.channels * area);
  if (image.height == height && image.width == width) {
    const Shape shape{static_cast<std::int64_t>(image.channels), static_cast<std::int64_t>(height),
                      static_cast<std::int64_t>(width)};
    return ToChannelsFirst(image.bytes, shape, 1, planes);
  }
  const AxisTaps down = MakeTaps(image.height, height, interpolation);
  const AxisTaps across = MakeTaps(image.width, width, interpolation);
  const std::size_t elements = image.width * image.channels;
  std::vector<float> row(elements + kLanes - 1);  // MixColumns reads kLanes of the last channel
  const auto mix_columns = MixColumnsOf(image.channels);
  for (std::size_t y = 0; y < height; ++y) {
    MixRows(image, down, y, std::span(row).first(elements));
    mix_columns(row, across, area, planes.data() + y * width);
  }
}

}  // namespace lockstep::train
