#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/core/half.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

void MaskByRelu(const float* __restrict y, float* __restrict dy, std::int64_t size) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) dy[i] = y[i] > 0 ? dy[i] : 0.0f;
}

void Add(const float* a, const float* b, float* y, std::int64_t size, bool relu) {
  if (relu) {
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      const float sum = a[i] + b[i];
      y[i] = sum < 0 ? 0.0f : sum;
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) y[i] = a[i] + b[i];
  }
}

void CastToBFloat16(const float* __restrict x, std::uint16_t* __restrict y, std::int64_t size) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) y[i] = ToBFloat16(x[i]);
}

void CastFromBFloat16(const std::uint16_t* __restrict x, float* __restrict y, std::int64_t size) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) y[i] = FromBFloat16(x[i]);
}

void CastToFloat16(const float* __restrict x, std::uint16_t* __restrict y, std::int64_t size) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) y[i] = ToFloat16(x[i]);
}

void CastFromFloat16(const std::uint16_t* __restrict x, float* __restrict y, std::int64_t size) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) y[i] = FromFloat16(x[i]);
}

void HalfRelu(std::uint16_t* y, std::int64_t size, std::uint16_t infinity) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const auto magnitude = static_cast<std::uint16_t>(y[i] & 0x7fff);
    const bool is_negative = y[i] > 0x8000 && magnitude <= infinity;  // and not NaN
    y[i] = is_negative ? std::uint16_t{0} : y[i];
  }
}

void HalfMaskByRelu(const std::uint16_t* __restrict y, std::uint16_t* __restrict dy,
                    std::int64_t size, std::uint16_t infinity) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const bool is_positive = y[i] > 0 && y[i] <= infinity;
    dy[i] = is_positive ? dy[i] : std::uint16_t{0};
  }
}

void ScaleBytes(const std::uint8_t* __restrict x, float* __restrict y, std::int64_t size,
                float center, float factor) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) y[i] = (static_cast<float>(x[i]) - center) * factor;
}

}  // namespace

void Fill(ElementwiseKernels& kernels) {
  kernels = {
      .mask_by_relu = MaskByRelu,
      .add = Add,
      .to_bfloat16 = CastToBFloat16,
      .from_bfloat16 = CastFromBFloat16,
      .to_float16 = CastToFloat16,
      .from_float16 = CastFromFloat16,
      .half_relu = HalfRelu,
      .half_mask_by_relu = HalfMaskByRelu,
      .scale_bytes = ScaleBytes,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
