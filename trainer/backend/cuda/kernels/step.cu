#include "trainer/backend/cuda/kernels/kernel.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

LOCKSTEP_KERNEL(MultiplyByFactor, float* value, const float* factor) {
  *value *= *factor;
}

LOCKSTEP_KERNEL(WriteStepTail, const LossTotals* totals, StepTail* tail) {
  tail->loss = static_cast<float>(totals->loss);
  tail->correct = static_cast<float>(totals->correct);
}

namespace {

// The sum of every kNormLanes-th of `size` values. Reads several ahead of the additions, which wait
// for each other.
__device__ float SumOfLane(const float* values, std::int64_t size) {
  constexpr unsigned kAhead = 8;
  constexpr std::int64_t kStride = std::int64_t{kAhead} * kNormLanes;
  float sum = 0;
  std::int64_t i = 0;
  for (; i + kStride <= size; i += kStride) {
    float read[kAhead];
    for (unsigned k = 0; k < kAhead; ++k) read[k] = values[i + k * kNormLanes];
    for (unsigned k = 0; k < kAhead; ++k) sum += read[k] * read[k];
  }
  for (; i < size; i += kNormLanes) sum += values[i] * values[i];
  return sum;
}

// Adds the squares of the values from `whole` on, which are fewer than the lanes.
__device__ double WithTail(double sum, const float* values, std::int64_t whole,
                           std::int64_t count) {
  for (std::int64_t i = whole; i < count; ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return sum;
}

// As SumOfLane of all lanes, one after the other, where float32 overflows.
__device__ double SumOfLanes(const float* values, std::int64_t size) {
  double total = 0;
  for (unsigned lane = 0; lane < kNormLanes; ++lane) {
    double sum = 0;
    for (std::int64_t i = lane; i < size; i += kNormLanes) {
      const double value = values[i];
      sum += value * value;
    }
    total += sum;
  }
  return total;
}

}  // namespace

// The order of trainer/core/squared_norm.cc, so that the bits are the same.
LOCKSTEP_BLOCK_KERNEL(SumSquares, const bool* is_summed, const float* values, std::int64_t size,
                      double* squares) {
  if (!*is_summed) return;  // another stream may still write to the values
  __shared__ float sums[kNormGroups][kNormLanes];
  const unsigned group = threadIdx.x / kNormLanes, lane = threadIdx.x % kNormLanes;
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * kNormGroups + group;
  const float* const own = values + block * kNormBlock;
  const std::int64_t left = size - block * kNormBlock;
  const std::int64_t count = left < kNormBlock ? left : kNormBlock;
  const std::int64_t whole = count / kNormLanes * kNormLanes;
  if (count > 0) sums[group][lane] = SumOfLane(own + lane, whole);
  __syncthreads();
  if (count <= 0 || lane != 0) return;
  double total = 0;
  for (unsigned i = 0; i < kNormLanes; ++i) total += static_cast<double>(sums[group][i]);
  total = WithTail(total, own, whole, count);
  if (!std::isfinite(total)) total = WithTail(SumOfLanes(own, whole), own, whole, count);
  squares[block] = total;
}

LOCKSTEP_BLOCK_KERNEL(DecideStep, const UpdateSettings* settings, const bool* is_summed,
                      const double* squares, std::int64_t blocks, const StepTail* tail,
                      UpdateGate* gate, OptimizerStep* update, StepResult* result) {
  __shared__ double parts[kDecidingThreads];
  const std::int64_t part = threadIdx.x;
  double sum = 0;
  for (std::int64_t b = blocks * part / kDecidingThreads;
       b < blocks * (part + 1) / kDecidingThreads; ++b) {
    sum += squares[b];
  }
  parts[part] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double norm = 0;
  for (unsigned i = 0; i < kDecidingThreads; ++i) norm += parts[i];
  *result = DecideUpdate(*settings, *is_summed, norm, *tail, *gate, *update);
}

LOCKSTEP_KERNEL(ChooseStates, const OptimizerStep* update, const float* summed, const float* saved,
                float* states, std::int64_t size) {
  const float* chosen = update->applies ? summed : saved;
  ForEach(size, [=](std::int64_t i) { states[i] = chosen[i]; });
}

}  // namespace lockstep::train::cuda::kernels
