// Finds features in a serialized tf.train.Example (tensorflow/core/example/example.proto and
// feature.proto): a map from names to lists of bytes, floats or 64-bit integers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::train {

// A value is a view into the example.
struct TfFeature {
  enum class Kind { kNone, kBytes, kFloats, kIntegers };
  Kind kind = Kind::kNone;
  std::span<const std::uint8_t> list;  // a serialized BytesList, FloatList or Int64List
};

// Returns the feature of that name, or nullopt if there is none. DataLoss: the bytes are not a
// message. Thread-safe, as are the functions below.
absl::StatusOr<std::optional<TfFeature>> FindTfFeature(std::span<const std::uint8_t> example,
                                                       std::string_view name);

// The one element of a list of bytes or integers, or nullopt if it has another kind or size.
std::optional<std::span<const std::uint8_t>> OnlyBytes(const TfFeature& feature);
std::optional<std::int64_t> OnlyInteger(const TfFeature& feature);

// Copies the elements of a list of floats. Returns how many there are, which may be more than
// `floats` has room for, or nullopt if it is no list of floats.
std::optional<std::size_t> CopyFloats(const TfFeature& feature, std::span<std::uint8_t> floats);

}  // namespace lockstep::train
