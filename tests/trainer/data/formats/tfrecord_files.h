// Builds TFRecord files for tests, in the bytes that TensorFlow writes.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/core/crc32c.h"

namespace lockstep::train {

inline std::string LittleEndianText(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

inline std::string MaskedCrcText(const std::string& data) {
  const std::uint32_t crc = Crc32c(data);
  return LittleEndianText(((crc >> 15) | (crc << 17)) + 0xA282EAD8u, 4);
}

inline std::string TfRecord(const std::string& data) {
  const std::string length = LittleEndianText(data.size(), 8);
  return length + MaskedCrcText(length) + data + MaskedCrcText(data);
}

inline std::string VarintText(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}

// A field of the wire type 2: a string, a message, or packed numbers.
inline std::string WireField(int number, const std::string& content) {
  return VarintText(static_cast<std::uint64_t>(number) << 3 | 2) + VarintText(content.size()) +
         content;
}

// Entries of an example's map of features.
inline std::string FeatureEntry(const std::string& name, int kind, const std::string& list) {
  return WireField(1, WireField(1, name) + WireField(2, WireField(kind, list)));
}
inline std::string BytesFeature(const std::string& name, const std::string& value) {
  return FeatureEntry(name, 1, WireField(1, value));
}
inline std::string IntegerFeature(const std::string& name, std::int64_t value) {
  return FeatureEntry(name, 3, WireField(1, VarintText(static_cast<std::uint64_t>(value))));
}
inline std::string Example(const std::string& entries) {
  return WireField(1, entries);
}

}  // namespace lockstep::train
