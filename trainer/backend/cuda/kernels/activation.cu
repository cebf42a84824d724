#include "trainer/backend/activation.h"

#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {
namespace {

// The function's value and derivative.
struct Point {
  float y, slope;
};

__device__ Point GeluAt(float x) {
  constexpr float kSqrtHalf = 0.70710678f, kInverseSqrt2Pi = 0.39894228f;
  const float cdf = erfcf(-x * kSqrtHalf) / 2;
  return {x * cdf, cdf + x * kInverseSqrt2Pi * expf(-x * x / 2)};
}

__device__ Point SiluAt(float x) {
  const float sigmoid = 1 / (1 + expf(-x));
  return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid))};
}

__device__ Point TanhAt(float x) {
  const float y = tanhf(x);
  return {y, 1 - y * y};
}

// NaN is kept. At 0 the derivative is the slope.
__device__ Point LeakyReluAt(float x, float slope) {
  return x < 0 ? Point{slope * x, slope} : Point{x, x > 0 ? 1.0f : slope};
}

__device__ Point At(int activation, float slope, float x) {
  switch (static_cast<Activation>(activation)) {
    case Activation::kRelu:
      return x < 0 ? Point{0, 0} : Point{x, x > 0 ? 1.0f : 0.0f};
    case Activation::kGelu:
      return GeluAt(x);
    case Activation::kSilu:
      return SiluAt(x);
    case Activation::kTanh:
      return TanhAt(x);
    case Activation::kLeakyRelu:
      return LeakyReluAt(x, slope);
  }
  return {};
}

}  // namespace

LOCKSTEP_KERNEL(Activate, const void* x, void* y, int type, std::int64_t size, int activation,
                float slope) {
  WithType(type, [=]<typename T>(T) {
    Map(
        static_cast<T*>(y), size, [=](float value) { return At(activation, slope, value).y; },
        static_cast<const T*>(x));
  });
}

LOCKSTEP_KERNEL(ActivateBackward, const void* x, const void* dy, void* dx, int type,
                std::int64_t size, int activation, float slope) {
  WithType(type, [=]<typename T>(T) {
    Map(
        static_cast<T*>(dx), size,
        [=](float value, float gradient) {
          const float factor = At(activation, slope, value).slope;
          return factor == 0 ? 0.0f : gradient * factor;  // 0 whatever dy is
        },
        static_cast<const T*>(x), static_cast<const T*>(dy));
  });
}

}  // namespace lockstep::train::cuda::kernels
