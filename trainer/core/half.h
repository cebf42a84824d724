// The 16-bit floating-point types, as bits. Conversions from float round to the nearest value, ties
// to even; what is too large becomes infinity, and NaN stays NaN. They have no branches and no
// calls, so that the compiler vectorizes loops over them.
#pragma once

#include <cstdint>

#include "trainer/core/device_code.h"

namespace lockstep::train {

[[gnu::always_inline]] LOCKSTEP_ALSO_ON_GPU inline std::uint32_t BitsOf(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}
[[gnu::always_inline]] LOCKSTEP_ALSO_ON_GPU inline float FloatOf(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

// BFloat16: the upper half of a float.
[[gnu::always_inline]] LOCKSTEP_ALSO_ON_GPU inline std::uint16_t ToBFloat16(float value) {
  constexpr std::uint32_t kQuiet = 0x40;  // keeps a NaN whose upper half is infinity's
  const std::uint32_t bits = BitsOf(value);
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<std::uint16_t>(is_nan ? (bits >> 16) | kQuiet : rounded);
}
[[gnu::always_inline]] LOCKSTEP_ALSO_ON_GPU inline float FromBFloat16(std::uint16_t value) {
  return FloatOf(static_cast<std::uint32_t>(value) << 16);
}

// Float16: IEEE 754's binary16.
[[gnu::always_inline]] LOCKSTEP_ALSO_ON_GPU inline std::uint16_t ToFloat16(float value) {
  const std::uint32_t bits = BitsOf(value);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  // Adding 2^-1 to what is below 2^-14 leaves a subnormal's bits, rounded, at the end of the sum.
  constexpr std::uint32_t kHalf = 126u << 23;
  const std::uint32_t subnormal = BitsOf(FloatOf(magnitude) + FloatOf(kHalf)) - kHalf;
  // Otherwise the exponent's bias changes from 127 to 15 and 13 bits are rounded away.
  constexpr std::uint32_t kBias = 112u << 23;
  const std::uint32_t normal = (magnitude - kBias + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const std::uint32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
  std::uint32_t result = magnitude < (113u << 23) ? subnormal : normal;
  result = magnitude >= (143u << 23) ? special : result;  // 2^16 and above
  return static_cast<std::uint16_t>(result | (bits >> 16 & 0x8000));
}
[[gnu::always_inline]] LOCKSTEP_ALSO_ON_GPU inline float FromFloat16(std::uint16_t value) {
  constexpr std::uint32_t kExponent = 0x7c00u << 13;
  const std::uint32_t magnitude = (value & 0x7fffu) << 13;
  const std::uint32_t exponent = magnitude & kExponent;
  const std::uint32_t normal = magnitude + (112u << 23);
  const std::uint32_t special = magnitude + (224u << 23);  // infinity and NaN
  constexpr std::uint32_t kSmallest = 113u << 23;          // 2^-14
  const std::uint32_t subnormal =
      BitsOf(FloatOf(magnitude + kSmallest) - FloatOf(kSmallest));  // an exact difference
  std::uint32_t result = exponent == 0 ? subnormal : normal;
  result = exponent == kExponent ? special : result;
  return FloatOf(result | static_cast<std::uint32_t>(value & 0x8000) << 16);
}

}  // namespace lockstep::train
