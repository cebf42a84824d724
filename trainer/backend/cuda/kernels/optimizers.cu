#include "trainer/backend/cuda/kernels/kernel.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::cuda::kernels {
namespace {

// `segments`: as in OptimizerMemory. None: all values decay.
__device__ bool Decays(const OptimizerSegment* segments, std::int64_t count, std::int64_t i) {
  if (count == 0) return true;
  std::int64_t first = 0, last = count - 1;
  while (first < last) {
    const std::int64_t middle = (first + last) / 2;
    if (i < segments[middle].end) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return segments[first].decays;
}

// Calls update(i, g, value) for each value, which has decayed.
template <typename Update>
__device__ void UpdateValues(float* values, const float* gradients, std::int64_t size,
                             const OptimizerSegment* segments, std::int64_t count,
                             const OptimizerStep& step, float weight_decay, const Update& update) {
  const float keep = KeptByDecay(weight_decay, step);
  const float scale = step.gradient_scale;
  ForEach(size, [&](std::int64_t i) {
    float value = (Decays(segments, count, i) ? keep : 1) * values[i];
    update(i, scale * gradients[i], value);
    values[i] = value;
  });
}

}  // namespace

LOCKSTEP_KERNEL(UpdateBySgd, float* values, const float* gradients, float* velocities,
                std::int64_t size, const OptimizerSegment* segments, std::int64_t count,
                const OptimizerStep* step, float weight_decay, float momentum, bool nesterov) {
  if (!step->applies) return;
  const SgdSpec spec{.momentum = momentum, .nesterov = nesterov};
  const float rate = step->learning_rate;
  UpdateValues(values, gradients, size, segments, count, *step, weight_decay,
               [=](std::int64_t i, float g, float& value) {
                 UpdateValue(spec, g, rate, value,
                             velocities == nullptr ? nullptr : velocities + i);
               });
}

LOCKSTEP_BLOCK_KERNEL(UpdateByAdam, float* values, const float* gradients, float* m, float* v,
                      std::int64_t size, const OptimizerSegment* segments, std::int64_t count,
                      const OptimizerStep* step, float weight_decay, float beta1, float beta2,
                      float epsilon, float rate_ratio) {
  if (!step->applies) return;
  const AdamSpec spec{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .rate_ratio = rate_ratio};
  __shared__ float shared_rate;  // computed once: float64 is slow on many GPUs
  if (threadIdx.x == 0) shared_rate = RateOf(spec, *step);
  __syncthreads();
  const float rate = shared_rate;
  UpdateValues(values, gradients, size, segments, count, *step, weight_decay,
               [=](std::int64_t i, float g, float& value) {
                 UpdateValue(spec, g, rate, value, m[i], v[i]);
               });
}

LOCKSTEP_KERNEL(UpdateByRmsprop, float* values, const float* gradients, float* squares,
                float* velocities, std::int64_t size, const OptimizerSegment* segments,
                std::int64_t count, const OptimizerStep* step, float weight_decay, float rho,
                float epsilon, float momentum) {
  if (!step->applies) return;
  const RmspropSpec spec{.rho = rho, .epsilon = epsilon, .momentum = momentum};
  const float rate = step->learning_rate;
  UpdateValues(values, gradients, size, segments, count, *step, weight_decay,
               [=](std::int64_t i, float g, float& value) {
                 UpdateValue(spec, g, rate, value, squares[i],
                             velocities == nullptr ? nullptr : velocities + i);
               });
}

LOCKSTEP_KERNEL(UpdateByAdagrad, float* values, const float* gradients, float* sums,
                std::int64_t size, const OptimizerSegment* segments, std::int64_t count,
                const OptimizerStep* step, float weight_decay, float epsilon) {
  if (!step->applies) return;
  const AdagradSpec spec{.epsilon = epsilon};
  const float rate = step->learning_rate;
  UpdateValues(
      values, gradients, size, segments, count, *step, weight_decay,
      [=](std::int64_t i, float g, float& value) { UpdateValue(spec, g, rate, value, sums[i]); });
}

}  // namespace lockstep::train::cuda::kernels
