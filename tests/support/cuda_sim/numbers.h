// Tensors of the simulated libraries in the types that they take, and as floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/core/half.h"

namespace cuda_sim {

enum class NumberType { kFloat32, kFloat16, kBFloat16 };

inline float NumberAt(const void* memory, std::size_t i, NumberType type) {
  if (type == NumberType::kFloat32) return static_cast<const float*>(memory)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(memory)[i];
  return type == NumberType::kFloat16 ? lockstep::train::FromFloat16(bits)
                                      : lockstep::train::FromBFloat16(bits);
}

inline void SetNumber(void* memory, std::size_t i, NumberType type, float value) {
  if (type == NumberType::kFloat32) {
    static_cast<float*>(memory)[i] = value;
    return;
  }
  static_cast<std::uint16_t*>(memory)[i] = type == NumberType::kFloat16
                                               ? lockstep::train::ToFloat16(value)
                                               : lockstep::train::ToBFloat16(value);
}

// The nearest number with 10 bits after the point; of two, the one further from 0.
inline float RoundedToTf32(float value) {
  const std::uint32_t bits = lockstep::train::BitsOf(value);
  const bool is_finite = (bits & 0x7f800000) != 0x7f800000;
  return is_finite ? lockstep::train::FloatOf((bits + 0x1000) & ~std::uint32_t{0x1fff}) : value;
}

inline std::vector<float> AsFloats(const void* memory, std::size_t size, NumberType type) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = NumberAt(memory, i, type);
  return values;
}

}  // namespace cuda_sim
