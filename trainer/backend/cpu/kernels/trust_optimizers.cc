// Optimizers that measure each tensor before they update it: see LarsSpec and LambSpec.
#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

// Sums in double and in an order that is that of all instruction sets: element i is added to sum
// i % kSums.
constexpr std::int64_t kSums = 8;

struct PairOfFloats {
  float value, update;
};

// The sums of the squares of what pair_of(i) returns.
template <typename PairOf>
inline TrustSquares SumSquares(std::int64_t size, const PairOf& pair_of) {
  double values[kSums] = {}, updates[kSums] = {};
  const std::int64_t whole = size / kSums * kSums;
  for (std::int64_t begin = 0; begin < whole; begin += kSums) {
#pragma omp simd
    for (std::int64_t k = 0; k < kSums; ++k) {
      const PairOfFloats pair = pair_of(begin + k);
      const double value = pair.value, update = pair.update;
      values[k] += value * value;
      updates[k] += update * update;
    }
  }
  TrustSquares sum;
  for (std::int64_t k = 0; k < kSums; ++k) {
    sum.values += values[k];
    sum.update += updates[k];
  }
  for (std::int64_t i = whole; i < size; ++i) {
    const PairOfFloats pair = pair_of(i);
    const double value = pair.value, update = pair.update;
    sum.values += value * value;
    sum.update += update * update;
  }
  return sum;
}

inline float LambDirection(const LambFactors& f, float value, float mean, float square) {
  return f.m_correction * mean / (__builtin_sqrtf(f.v_correction * square) + f.epsilon) +
         f.decay * value;
}

TrustSquares LarsSquares(const LarsFactors& factors, const float* __restrict gradient,
                         const float* __restrict value, std::int64_t size) {
  const float scale = factors.scale;
  return SumSquares(size, [=](std::int64_t i) {
    return PairOfFloats{.value = value[i], .update = scale * gradient[i]};
  });
}

void Lars(const LarsFactors& factors, const float* __restrict gradient, float* __restrict value,
          float* __restrict velocity, std::int64_t size) {
  const LarsFactors f = factors;
  if (velocity == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      value[i] = value[i] - f.rate * (f.scale * gradient[i] + f.decay * value[i]);
    }
    return;
  }
  // The update is a * velocity + b * g.
  const float a = f.nesterov ? f.momentum : 1, b = f.nesterov ? -f.rate : 0;
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const float g = f.scale * gradient[i] + f.decay * value[i];
    velocity[i] = f.momentum * velocity[i] - f.rate * g;
    value[i] = value[i] + a * velocity[i] + b * g;
  }
}

TrustSquares LambMoments(const LambFactors& factors, const float* __restrict gradient,
                         const float* __restrict value, float* __restrict m, float* __restrict v,
                         std::int64_t size) {
  const LambFactors f = factors;
  const float fresh1 = 1 - f.beta1, fresh2 = 1 - f.beta2;
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const float g = f.scale * gradient[i];
    m[i] = m[i] + fresh1 * (g - m[i]);
    v[i] = v[i] + fresh2 * (g * g - v[i]);
  }
  return SumSquares(size, [=](std::int64_t i) {
    return PairOfFloats{.value = value[i], .update = LambDirection(f, value[i], m[i], v[i])};
  });
}

void Lamb(const LambFactors& factors, const float* __restrict m, const float* __restrict v,
          float* __restrict value, std::int64_t size) {
  const LambFactors f = factors;
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    value[i] = value[i] - f.rate * LambDirection(f, value[i], m[i], v[i]);
  }
}

}  // namespace

void Fill(TrustOptimizerKernels& kernels) {
  kernels = {
      .lars_squares = LarsSquares,
      .lars = Lars,
      .lamb_moments = LambMoments,
      .lamb = Lamb,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
