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

// The sums of a block of values, of which thread `lane` adds every kNormLanes-th, in Number.
template <typename Number>
__device__ double SumOfBlock(const float* values, std::int64_t size) {
  __shared__ double lanes[kNormLanes];
  const std::int64_t whole = size / kNormLanes * kNormLanes;
  Number sum = 0;
  for (std::int64_t i = threadIdx.x; i < whole; i += kNormLanes) {
    const Number value = values[i];
    sum += value * value;
  }
  __syncthreads();  // of an earlier sum, all have read the lanes
  lanes[threadIdx.x] = static_cast<double>(sum);
  __syncthreads();
  double total = 0;
  for (unsigned lane = 0; lane < kNormLanes; ++lane) total += lanes[lane];
  for (std::int64_t i = whole; i < size; ++i) {
    total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return total;
}

// The order of trainer/core/squared_norm.cc, so that the bits are the same.
LOCKSTEP_BLOCK_KERNEL(SumSquares, const float* values, std::int64_t size, double* squares) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kNormBlock;
  const std::int64_t count = size - begin < kNormBlock ? size - begin : kNormBlock;
  double sum = SumOfBlock<float>(values + begin, count);
  if (!std::isfinite(sum)) sum = SumOfBlock<double>(values + begin, count);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
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
  *result = DecideUpdate(*settings, *is_summed, *is_summed ? norm : 0, *tail, *gate, *update);
}

LOCKSTEP_KERNEL(ChooseStates, const OptimizerStep* update, const float* summed, const float* saved,
                float* states, std::int64_t size) {
  const float* chosen = update->applies ? summed : saved;
  ForEach(size, [=](std::int64_t i) { states[i] = chosen[i]; });
}

}  // namespace lockstep::train::cuda::kernels
