#include "trainer/backend/cuda/kernels/kernel.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::cuda::kernels {
namespace {

// Calls body(i) for each value of the piece, on the threads of the block.
template <typename Body>
__device__ void ForEachOf(const OptimizerPiece& piece, const Body& body) {
  for (std::int64_t i = piece.begin + threadIdx.x; i < piece.end; i += blockDim.x) body(i);
}

__device__ void AddSquares(float value, float update, TrustSquares& sum) {
  sum.values += static_cast<double>(value) * value;
  sum.update += static_cast<double>(update) * update;
}

// Computes them once for all threads of the block: float64 is slow on many GPUs.
__device__ LambCorrections SharedCorrections(const LambSpec& spec, const OptimizerStep& step) {
  __shared__ float m, v;
  if (threadIdx.x == 0) {
    const LambCorrections corrections = CorrectionsOf(spec, step);
    m = corrections.m;
    v = corrections.v;
  }
  __syncthreads();
  return {.m = m, .v = v};
}

// `squares` become the sums of the block's threads.
__device__ void WriteSum(const TrustSquares& own, TrustSquares* squares) {
  const double values = BlockSum(own.values), update = BlockSum(own.update);
  if (threadIdx.x == 0) *squares = {.values = values, .update = update};
}

}  // namespace

LOCKSTEP_BLOCK_KERNEL(MeasureForLars, const float* values, const float* gradients,
                      const OptimizerPiece* pieces, const OptimizerStep* step,
                      TrustSquares* squares) {
  if (!step->applies) return;
  const float scale = step->gradient_scale;
  TrustSquares sum;
  ForEachOf(pieces[blockIdx.x],
            [&](std::int64_t i) { AddSquares(values[i], scale * gradients[i], sum); });
  WriteSum(sum, squares + blockIdx.x);
}

LOCKSTEP_BLOCK_KERNEL(MeasureForLamb, const float* values, const float* gradients, float* m,
                      float* v, const OptimizerPiece* pieces, const OptimizerSegment* segments,
                      const OptimizerStep* step, float weight_decay, float beta1, float beta2,
                      float epsilon, TrustSquares* squares) {
  if (!step->applies) return;
  const LambSpec spec{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon};
  const LambCorrections corrections = SharedCorrections(spec, *step);
  const OptimizerPiece piece = pieces[blockIdx.x];
  const float decay = segments[piece.segment].decays ? weight_decay : 0;
  const float scale = step->gradient_scale;
  TrustSquares sum;
  ForEachOf(piece, [&](std::int64_t i) {
    UpdateMoments(spec, scale * gradients[i], m[i], v[i]);
    AddSquares(values[i], DirectionOf(spec, corrections, decay, values[i], m[i], v[i]), sum);
  });
  WriteSum(sum, squares + blockIdx.x);
}

LOCKSTEP_BLOCK_KERNEL(ChooseTrusts, const std::int64_t* firsts, const OptimizerSegment* segments,
                      const TrustSquares* squares, const OptimizerStep* step, double coefficient,
                      double decay, float* trusts) {
  if (!step->applies) return;
  const std::int64_t segment = blockIdx.x;
  TrustSquares own;
  for (std::int64_t i = firsts[segment] + threadIdx.x; i < firsts[segment + 1]; i += blockDim.x) {
    own.values += squares[i].values;
    own.update += squares[i].update;
  }
  const TrustSquares sum{.values = BlockSum(own.values), .update = BlockSum(own.update)};
  if (threadIdx.x != 0) return;
  trusts[segment] = segments[segment].decays ? TrustRatio(sum, coefficient, decay) : 1;
}

LOCKSTEP_KERNEL(UpdateByLars, float* values, const float* gradients, float* velocities,
                const OptimizerPiece* pieces, const OptimizerSegment* segments, const float* trusts,
                const OptimizerStep* step, float weight_decay, float momentum, bool nesterov) {
  if (!step->applies) return;
  const LarsSpec spec{.momentum = momentum, .nesterov = nesterov};
  const OptimizerPiece piece = pieces[blockIdx.x];
  const float decay = segments[piece.segment].decays ? weight_decay : 0;
  const float rate = step->learning_rate * trusts[piece.segment], scale = step->gradient_scale;
  ForEachOf(piece, [=](std::int64_t i) {
    UpdateValue(spec, scale * gradients[i] + decay * values[i], rate, values[i],
                velocities == nullptr ? nullptr : velocities + i);
  });
}

LOCKSTEP_BLOCK_KERNEL(UpdateByLamb, float* values, const float* m, const float* v,
                      const OptimizerPiece* pieces, const OptimizerSegment* segments,
                      const float* trusts, const OptimizerStep* step, float weight_decay,
                      float beta1, float beta2, float epsilon) {
  if (!step->applies) return;
  const LambSpec spec{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon};
  const LambCorrections corrections = SharedCorrections(spec, *step);
  const OptimizerPiece piece = pieces[blockIdx.x];
  const float decay = segments[piece.segment].decays ? weight_decay : 0;
  const float rate = step->learning_rate * trusts[piece.segment];
  ForEachOf(piece, [=](std::int64_t i) {
    values[i] -= rate * DirectionOf(spec, corrections, decay, values[i], m[i], v[i]);
  });
}

}  // namespace lockstep::train::cuda::kernels
