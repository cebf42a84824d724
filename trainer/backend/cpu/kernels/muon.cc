// What Muon does between its products: see MuonSpec.
#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

// Element i is added to sum i % kSums, on every instruction set.
constexpr std::int64_t kSums = 8;

double MuonDirection(const MuonFactors& factors, const float* __restrict gradient,
                     float* __restrict m, float* __restrict u, std::int64_t size) {
  const MuonFactors f = factors;
  // u = a * m + b * g
  const float a = f.nesterov ? f.momentum : 1, b = f.nesterov ? 1 : 0;
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const float g = f.scale * gradient[i];
    m[i] = f.momentum * m[i] + g;
    u[i] = b * g + a * m[i];
  }
  double sums[kSums] = {};
  const std::int64_t whole = size / kSums * kSums;
  for (std::int64_t begin = 0; begin < whole; begin += kSums) {
#pragma omp simd
    for (std::int64_t k = 0; k < kSums; ++k) {
      const double value = u[begin + k];
      sums[k] += value * value;
    }
  }
  double sum = 0;
  for (std::int64_t k = 0; k < kSums; ++k) sum += sums[k];
  for (std::int64_t i = whole; i < size; ++i) {
    const double value = u[i];
    sum += value * value;
  }
  return sum;
}

void Divide(float divisor, float* __restrict x, std::int64_t size) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) x[i] = x[i] / divisor;
}

void Combine(float a, const float* __restrict x, float b, float* __restrict y, std::int64_t size) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) y[i] = a * x[i] + b * y[i];
}

}  // namespace

void Fill(MuonKernels& kernels) {
  kernels = {
      .muon_direction = MuonDirection,
      .divide = Divide,
      .combine = Combine,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
