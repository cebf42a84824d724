// The elements of tensors in device memory: float, or a 16-bit floating-point type. Kernels take
// such memory as void with its type, a DType, and compute in float32.
#pragma once

#include <cstdint>
#include <type_traits>

#include "trainer/backend/cuda/kernels/kernel.h"
#include "trainer/core/dtype.h"
#include "trainer/core/half.h"

namespace lockstep::train::cuda {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

__device__ inline float ToFloat(float value) {
  return value;
}
__device__ inline float ToFloat(BFloat16 value) {
  return FromBFloat16(value.bits);
}
__device__ inline float ToFloat(Float16 value) {
#ifdef __CUDA_ARCH__
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
#else
  return FromFloat16(value.bits);
#endif
}

// Rounds to nearest even.
template <typename T>
__device__ inline T FromFloat(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
#ifdef __CUDA_ARCH__
    BFloat16 narrow;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
    return narrow;
#else
    return {ToBFloat16(value)};
#endif
  } else {
#ifdef __CUDA_ARCH__
    Float16 narrow;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
    return narrow;
#else
    return {ToFloat16(value)};
#endif
  }
}

// Calls body(T{}) with the type that `type`, a DType, says.
template <typename Body>
__device__ inline void WithType(int type, const Body& body) {
  switch (static_cast<DType>(type)) {
    case DType::kBFloat16:
      body(BFloat16{});
      return;
    case DType::kFloat16:
      body(Float16{});
      return;
    default:
      body(float{});
  }
}

// Elements that are neighbors in memory. A thread reads or writes them at once, so they begin at a
// multiple of their size.
template <typename T, unsigned kCount>
struct alignas(sizeof(T) * kCount) Neighbors {
  T elements[kCount];
};
// How many elements fit into 16 bytes, which one instruction moves.
template <typename T>
inline constexpr unsigned kMostNeighbors = 16 / sizeof(T);

// The neighbors from x + i.
template <unsigned kCount, typename T>
__device__ inline Neighbors<T, kCount> Load(const T* x, std::int64_t i) {
  return *reinterpret_cast<const Neighbors<T, kCount>*>(x + i);
}
template <unsigned kCount, typename T>
__device__ inline void Store(T* y, std::int64_t i, const Neighbors<T, kCount>& values) {
  *reinterpret_cast<Neighbors<T, kCount>*>(y + i) = values;
}

// y[i] = function(x[i]…) for every i < size. y may be one of x. Requires: y and each x begin at a
// multiple of 16 bytes; where y's elements have 16 bits, an x of float at a multiple of 32.
template <typename T, typename Function, typename... X>
__device__ inline void Map(T* y, std::int64_t size, const Function& function, const X*... x) {
  constexpr unsigned kCount = kMostNeighbors<T>;
  ForEach(size / kCount, [&](std::int64_t group) {
    const std::int64_t i = group * kCount;
    const auto map = [&](const auto&... values) {
      Neighbors<T, kCount> result;
      for (unsigned k = 0; k < kCount; ++k) {
        result.elements[k] = FromFloat<T>(function(ToFloat(values.elements[k])...));
      }
      Store(y, i, result);
    };
    map(Load<kCount>(x, i)...);
  });
  const std::int64_t tail = size / kCount * kCount;
  ForEach(size - tail,
          [&](std::int64_t i) { y[tail + i] = FromFloat<T>(function(ToFloat(x[tail + i])...)); });
}

// max(value, 0) where `relu`, else the value. NaN is kept.
__device__ inline float Rectified(float value, bool relu) {
  return relu && value < 0 ? 0.0f : value;
}

}  // namespace lockstep::train::cuda
