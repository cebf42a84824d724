#include "trainer/backend/cuda/kernels/kernel.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/elementwise_term.h"

namespace lockstep::train::cuda::kernels {
namespace {

struct Largest {
  float value = 0;
  std::int64_t index = -1;  // none
};

__device__ Largest LargerOf(const Largest& a, const Largest& b) {
  if (b.index < 0) return a;
  if (a.index < 0 || b.value > a.value) return b;
  return b.value == a.value && b.index < a.index ? b : a;
}

// The first of a row's largest values, to every thread of the block.
__device__ Largest LargestOf(const float* row, std::int64_t size) {
  __shared__ float values[kMostThreads];
  __shared__ std::int64_t indices[kMostThreads];
  Largest largest;
  for (std::int64_t k = threadIdx.x; k < size; k += blockDim.x) {
    largest = LargerOf(largest, {row[k], k});
  }
  __syncthreads();  // of an earlier row, all have read the result
  values[threadIdx.x] = largest.value;
  indices[threadIdx.x] = largest.index;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    const unsigned other = threadIdx.x + half;
    largest = LargerOf(largest, {values[other], indices[other]});
    values[threadIdx.x] = largest.value;
    indices[threadIdx.x] = largest.index;
  }
  __syncthreads();
  return {values[0], indices[0]};
}

}  // namespace

LOCKSTEP_BLOCK_KERNEL(SoftmaxCrossEntropyRows, const float* logits, float* dlogits,
                      const std::int32_t* labels, const float* targets, const float* weights,
                      const float* scale, LossTotals* rows, std::int64_t classes,
                      double label_smoothing) {
  const std::int64_t n = blockIdx.x;
  const float weight = weights[n];
  const float* row = logits + n * classes;
  float* gradient = dlogits == nullptr ? nullptr : dlogits + n * classes;
  if (weight == 0) {
    for (std::int64_t k = threadIdx.x; gradient != nullptr && k < classes; k += blockDim.x) {
      gradient[k] = 0;
    }
    if (threadIdx.x == 0) rows[n] = {};
    return;
  }
  const Largest best = LargestOf(row, classes);
  const std::int64_t label =
      labels == nullptr ? LargestOf(targets + n * classes, classes).index : labels[n];
  double sum = 0;
  for (std::int64_t k = threadIdx.x; k < classes; k += blockDim.x) {
    sum += std::exp(static_cast<double>(row[k]) - best.value);
  }
  const double log_sum = best.value + std::log(BlockSum(sum));
  const float factor = gradient == nullptr ? 0 : *scale * weight;
  double loss = 0;
  for (std::int64_t k = threadIdx.x; k < classes; k += blockDim.x) {
    const double one_hot = labels == nullptr ? targets[n * classes + k] : k == label ? 1 : 0;
    const double target =
        (1 - label_smoothing) * one_hot + label_smoothing / static_cast<double>(classes);
    if (target != 0) loss += weight * target * (log_sum - row[k]);
    if (gradient == nullptr) continue;
    gradient[k] = static_cast<float>(factor * (std::exp(row[k] - log_sum) - target));
  }
  loss = BlockSum(loss);
  if (threadIdx.x == 0) rows[n] = {.loss = loss, .correct = best.index == label ? weight : 0.0};
}

LOCKSTEP_BLOCK_KERNEL(ElementwiseLosses, const float* logits, float* dlogits, const float* targets,
                      const float* weights, const float* scale, LossTotals* sums, std::int64_t rows,
                      std::int64_t outputs, int loss, double delta, double label_smoothing) {
  double loss_sum = 0, correct = 0;
  ForEach(rows * outputs, [&](std::int64_t i) {
    const float weight = weights[Divide(i, outputs).quotient];
    if (weight == 0) {
      if (dlogits != nullptr) dlogits[i] = 0;
      return;
    }
    const double share = weight / static_cast<double>(outputs);
    const ElementwiseTerm term = ElementwiseTermOf(static_cast<ElementwiseLoss>(loss), logits[i],
                                                   targets[i], delta, label_smoothing);
    loss_sum += share * term.loss;
    correct += share * term.correct;
    if (dlogits != nullptr) dlogits[i] = static_cast<float>(*scale * share * term.slope);
  });
  loss_sum = BlockSum(loss_sum);
  correct = BlockSum(correct);
  if (threadIdx.x == 0) sums[blockIdx.x] = {.loss = loss_sum, .correct = correct};
}

LOCKSTEP_BLOCK_KERNEL(AddLosses, const LossTotals* sums, std::int64_t size, LossTotals* totals) {
  double loss = 0, correct = 0;
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    loss += sums[i].loss;
    correct += sums[i].correct;
  }
  loss = BlockSum(loss);
  correct = BlockSum(correct);
  if (threadIdx.x != 0) return;
  totals->loss += loss;
  totals->correct += correct;
}

}  // namespace lockstep::train::cuda::kernels
