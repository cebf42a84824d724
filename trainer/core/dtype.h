// Element types of tensors.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::train {

enum class DType { kFloat32, kInt32, kUInt8 };

constexpr std::size_t SizeOf(DType dtype) {
  return dtype == DType::kUInt8 ? 1 : 4;
}
std::string_view DTypeName(DType dtype);  // "float32", "int32", "uint8"

}  // namespace lockstep::train
