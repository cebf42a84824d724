#include "trainer/backend/cuda/kernels/kernel.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/core/half.h"

namespace lockstep::train::cuda::kernels {

LOCKSTEP_KERNEL(ConvertBytes, const std::uint8_t* x, float* y, std::int64_t size, float scale) {
  ForEach(size, [=](std::int64_t i) { y[i] = scale * static_cast<float>(x[i]); });
}

LOCKSTEP_KERNEL(AddFloats, const float* x, float* y, std::int64_t size) {
  ForEach(size, [=](std::int64_t i) { y[i] += x[i]; });
}

LOCKSTEP_KERNEL(AddBfloats, const std::uint16_t* x, std::uint16_t* y, std::int64_t size) {
  ForEach(size,
          [=](std::int64_t i) { y[i] = ToBFloat16(FromBFloat16(x[i]) + FromBFloat16(y[i])); });
}

LOCKSTEP_KERNEL(AddHalves, const std::uint16_t* x, std::uint16_t* y, std::int64_t size) {
  ForEach(size, [=](std::int64_t i) { y[i] = ToFloat16(FromFloat16(x[i]) + FromFloat16(y[i])); });
}

LOCKSTEP_KERNEL(ScaleFloats, const float* x, float* y, std::int64_t size, float factor) {
  ForEach(size, [=](std::int64_t i) { y[i] = factor * x[i]; });
}

LOCKSTEP_KERNEL(BfloatsFromFloats, const float* x, std::uint16_t* y, std::int64_t size) {
  ForEach(size, [=](std::int64_t i) { y[i] = ToBFloat16(x[i]); });
}

LOCKSTEP_KERNEL(HalvesFromFloats, const float* x, std::uint16_t* y, std::int64_t size) {
  ForEach(size, [=](std::int64_t i) { y[i] = ToFloat16(x[i]); });
}

LOCKSTEP_KERNEL(FloatsFromBfloats, const std::uint16_t* x, float* y, std::int64_t size) {
  ForEach(size, [=](std::int64_t i) { y[i] = FromBFloat16(x[i]); });
}

LOCKSTEP_KERNEL(FloatsFromHalves, const std::uint16_t* x, float* y, std::int64_t size) {
  ForEach(size, [=](std::int64_t i) { y[i] = FromFloat16(x[i]); });
}

LOCKSTEP_KERNEL(FindNotFinite, const float* values, std::int64_t size, int* found) {
  ForEach(size, [=](std::int64_t i) {
    if (!std::isfinite(values[i])) *found = 1;  // whoever is last, it is 1
  });
}

}  // namespace lockstep::train::cuda::kernels
