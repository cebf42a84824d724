#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

// g = scale * gradient
// m += (1 - b1) * (g - m), v += (1 - b2) * (g * g - v), w -= rate * m / (sqrt(v) + epsilon)
void Adam(const AdamFactors& factors, const float* __restrict gradient, float* __restrict value,
          float* __restrict m, float* __restrict v, std::int64_t size) {
  const AdamFactors f = factors;
  const float keep = 1 - f.decay, fresh1 = 1 - f.beta1, fresh2 = 1 - f.beta2;
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const float g = f.scale * gradient[i];
    const float mean = m[i] + fresh1 * (g - m[i]);
    const float square = v[i] + fresh2 * (g * g - v[i]);
    m[i] = mean;
    v[i] = square;
    value[i] = keep * value[i] - f.rate * mean / (__builtin_sqrtf(square) + f.epsilon);
  }
}

void Sgd(const SgdFactors& factors, const float* __restrict gradient, float* __restrict value,
         float* __restrict velocity, std::int64_t size) {
  const SgdFactors f = factors;
  const float keep = 1 - f.decay;
  if (velocity == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      value[i] = keep * value[i] - f.rate * (f.scale * gradient[i]);
    }
    return;
  }
  // The update is a * velocity + b * gradient.
  const float a = f.nesterov ? f.momentum : 1, b = f.nesterov ? -f.rate : 0;
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const float g = f.scale * gradient[i];
    velocity[i] = f.momentum * velocity[i] - f.rate * g;
    value[i] = keep * value[i] + a * velocity[i] + b * g;
  }
}

// See RmspropSpec for the formula.
void Rmsprop(const RmspropFactors& factors, const float* __restrict gradient,
             float* __restrict value, float* __restrict square, float* __restrict velocity,
             std::int64_t size) {
  const RmspropFactors f = factors;
  const float keep = 1 - f.decay, fresh = 1 - f.rho;
  if (velocity == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      const float g = f.scale * gradient[i];
      square[i] = square[i] + fresh * (g * g - square[i]);
      value[i] = keep * value[i] - f.rate * g / __builtin_sqrtf(square[i] + f.epsilon);
    }
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const float g = f.scale * gradient[i];
    square[i] = square[i] + fresh * (g * g - square[i]);
    velocity[i] = f.momentum * velocity[i] + f.rate * g / __builtin_sqrtf(square[i] + f.epsilon);
    value[i] = keep * value[i] - velocity[i];
  }
}

// See AdagradSpec for the formula.
void Adagrad(const AdagradFactors& factors, const float* __restrict gradient,
             float* __restrict value, float* __restrict sum, std::int64_t size) {
  const AdagradFactors f = factors;
  const float keep = 1 - f.decay;
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const float g = f.scale * gradient[i];
    sum[i] = sum[i] + g * g;
    value[i] = keep * value[i] - f.rate * g / __builtin_sqrtf(sum[i] + f.epsilon);
  }
}

}  // namespace

void Fill(OptimizerKernels& kernels) {
  kernels = {
      .adam = Adam,
      .sgd = Sgd,
      .rmsprop = Rmsprop,
      .adagrad = Adagrad,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
