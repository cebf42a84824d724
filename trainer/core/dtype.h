// Element types of tensors.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::train {

enum class DType { kFloat32, kBFloat16, kFloat16, kInt32, kUInt8 };

constexpr std::size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kUInt8:
      break;
  }
  return 1;
}
constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}
std::string_view DTypeName(DType dtype);  // "float32", "bfloat16", "float16", "int32", "uint8"

}  // namespace lockstep::train
