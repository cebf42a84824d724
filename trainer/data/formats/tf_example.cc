#include "trainer/data/formats/tf_example.h"

#include <cstring>

#include "base/status.h"
#include "trainer/data/formats/wire_format.h"

namespace lockstep::train {
namespace {

using WireBytes = std::span<const std::uint8_t>;
using WireType = WireReader::Type;

absl::Status MalformedExample() {
  return absl::DataLossError("found malformed bytes, expected a tf.train.Example");
}

// Feature: one of bytes_list = 1, float_list = 2, int64_list = 3. The last one counts.
absl::StatusOr<TfFeature> ParseFeature(WireBytes message) {
  TfFeature feature;
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.type() != WireType::kBytes || reader.number() > 3) continue;
    feature = {static_cast<TfFeature::Kind>(reader.number()), reader.bytes()};
  }
  if (reader.failed()) return MalformedExample();
  return feature;
}

// An entry of the map: key = 1, value = 2.
absl::Status ParseEntry(WireBytes message, std::string_view name,
                        std::optional<TfFeature>& feature) {
  WireBytes key, value;
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.type() != WireType::kBytes) continue;
    if (reader.number() == 1) key = reader.bytes();
    if (reader.number() == 2) value = reader.bytes();
  }
  if (reader.failed()) return MalformedExample();
  if (key.size() != name.size() || std::memcmp(key.data(), name.data(), name.size()) != 0) {
    return absl::OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(feature, ParseFeature(value));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<TfFeature>> FindTfFeature(std::span<const std::uint8_t> example,
                                                       std::string_view name) {
  std::optional<TfFeature> feature;
  WireReader outer(example);  // Example: features = 1
  while (outer.Next()) {
    if (outer.number() != 1 || outer.type() != WireType::kBytes) continue;
    WireReader features(outer.bytes());  // Features: map<string, Feature> feature = 1
    while (features.Next()) {
      if (features.number() != 1 || features.type() != WireType::kBytes) continue;
      LOCKSTEP_RETURN_IF_ERROR(ParseEntry(features.bytes(), name, feature));
    }
    if (features.failed()) return MalformedExample();
  }
  if (outer.failed()) return MalformedExample();
  return feature;
}

std::optional<std::span<const std::uint8_t>> OnlyBytes(const TfFeature& feature) {
  if (feature.kind != TfFeature::Kind::kBytes) return std::nullopt;
  std::optional<WireBytes> only;
  WireReader reader(feature.list);
  while (reader.Next()) {
    if (reader.number() != 1 || reader.type() != WireType::kBytes) continue;
    if (only) return std::nullopt;
    only = reader.bytes();
  }
  return reader.failed() ? std::nullopt : only;
}

std::optional<std::int64_t> OnlyInteger(const TfFeature& feature) {
  if (feature.kind != TfFeature::Kind::kIntegers) return std::nullopt;
  std::optional<std::int64_t> only;
  int count = 0;
  WireReader reader(feature.list);
  while (reader.Next()) {
    if (reader.number() != 1) continue;
    if (reader.type() == WireType::kVarint) {
      only = static_cast<std::int64_t>(reader.varint());
      ++count;
    } else if (reader.type() == WireType::kBytes) {  // packed
      WireBytes packed = reader.bytes();
      std::uint64_t value = 0;
      for (; !packed.empty(); ++count) {
        if (!TakeVarint(packed, value)) return std::nullopt;
        only = static_cast<std::int64_t>(value);
      }
    }
  }
  return reader.failed() || count != 1 ? std::nullopt : only;
}

std::optional<std::size_t> CopyFloats(const TfFeature& feature, std::span<std::uint8_t> floats) {
  if (feature.kind != TfFeature::Kind::kFloats) return std::nullopt;
  std::size_t bytes = 0;
  WireReader reader(feature.list);
  while (reader.Next()) {
    const bool is_single = reader.type() == WireType::kFixed32;
    if (reader.number() != 1 || (!is_single && reader.type() != WireType::kBytes)) continue;
    const WireBytes found = reader.bytes();
    if (found.size() % sizeof(float) != 0) return std::nullopt;
    if (bytes + found.size() <= floats.size()) {
      std::memcpy(floats.data() + bytes, found.data(), found.size());
    }
    bytes += found.size();
  }
  if (reader.failed()) return std::nullopt;
  return bytes / sizeof(float);
}

}  // namespace lockstep::train
