#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

LOCKSTEP_KERNEL(ConvertBytes, const std::uint8_t* x, float* y, std::int64_t size, float scale) {
  ForEach(size, [=](std::int64_t i) { y[i] = scale * static_cast<float>(x[i]); });
}

LOCKSTEP_KERNEL(ScaleFloats, const float* x, float* y, std::int64_t size, float factor) {
  Map(y, size, [=](float value) { return factor * value; }, x);
}

LOCKSTEP_KERNEL(Convert, const void* x, int from, void* y, int to, std::int64_t size) {
  WithType(from, [=]<typename X>(X) {
    WithType(to, [=]<typename Y>(Y) {
      Map(static_cast<Y*>(y), size, [](float value) { return value; }, static_cast<const X*>(x));
    });
  });
}

LOCKSTEP_KERNEL(FindNotFinite, const float* values, std::int64_t size, int* found) {
  ForEach(size, [=](std::int64_t i) {
    if (!std::isfinite(values[i])) *found = 1;  // whoever is last, it is 1
  });
}

}  // namespace lockstep::train::cuda::kernels
