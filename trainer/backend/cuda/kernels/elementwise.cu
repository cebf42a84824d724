#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

LOCKSTEP_KERNEL(ConvertBytes, const std::uint8_t* x, float* y, std::int64_t size,
                std::int64_t channels, std::int64_t plane, float center_0, float center_1,
                float center_2, float factor_0, float factor_1, float factor_2) {
  ForEach(size, [=](std::int64_t i) {
    const std::int64_t channel =
        channels == 1 ? 0 : Divide(Divide(i, plane).quotient, channels).remainder;
    const float center = channel == 0 ? center_0 : channel == 1 ? center_1 : center_2;
    const float factor = channel == 0 ? factor_0 : channel == 1 ? factor_1 : factor_2;
    y[i] = (static_cast<float>(x[i]) - center) * factor;
  });
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
